"""The parts of a page that live updates send."""

from redbike.web.live import find_fragments, strip_distances


def test_what_is_live_is_found():
    for page, found in (
        ('<p id="a" data-live>x</p>', '<p id="a" data-live>x</p>'),
        ('<p data-live id="a">x</p>', '<p data-live id="a">x</p>'),
        ('<p data-live="1" class="c" id="a">x</p>', '<p data-live="1" class="c" id="a">x</p>'),
        ('<p id="a">x</p>', None),
        ("<p data-live>x</p>", None),
        ('<p data-lives id="a">x</p>', None),
        ('<p data-live id="a"><pre>x</pre></p>', '<p data-live id="a"><pre>x</pre></p>'),
        ('<ul data-live id="a"><li>1</ul><ul id="b"></ul>', '<ul data-live id="a"><li>1</ul>'),
        ('<p data-live id="a">&lt;/p&gt;</p> <p>', '<p data-live id="a">&lt;/p&gt;</p>'),
        ('<p data-live id="a">', '<p data-live id="a">'),
        ('<p title="a data-live b" id="a">x</p>', None),
        ('<i title="a data-live b" id="b"> data-live <p id="a" data-live>x</p>', '<p id="a" data-live>x</p>'),
        ('<p title=" data-live "\n id="a" data-live>x</p>', '<p title=" data-live "\n id="a" data-live>x</p>'),
    ):
        assert find_fragments(page) == ({"a": found} if found else {}), page


def test_one_inside_of_another_is_a_part_of_that():
    page = '<div id="a" data-live><div><div id="b" data-live></div></div></div><div id="c" data-live></div>'
    assert list(find_fragments(page)) == ["a", "c"]
    assert find_fragments(page)["a"].endswith("</div></div></div>")


def test_only_distances_are_no_change():
    first, second = (f'<p><time data-at="1.0" title="t">{words}</time> ago</p>' for words in ("1 s", "2 s"))
    assert strip_distances(first) == strip_distances(second)
    assert strip_distances("<p><time>03:00</time></p>") != strip_distances("<p><time>04:00</time></p>")
