"""The parts of a page that live updates send."""

import pytest

from redbike.web.live import find_fragments, strip_distances


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ('<p id="a" data-live>x</p>', {"a": '<p id="a" data-live>x</p>'}),
        ('<p data-live id="a">x</p>', {"a": '<p data-live id="a">x</p>'}),
        ('<p data-live="1" class="c" id="a">x</p>', {"a": '<p data-live="1" class="c" id="a">x</p>'}),
        ('<p id="a">x</p>', {}),
        ("<p data-live>x</p>", {}),
        ('<p data-lives id="a">x</p>', {}),
        ('<p data-live id="a"><pre>x</pre></p>', {"a": '<p data-live id="a"><pre>x</pre></p>'}),
        ('<ul data-live id="a"><li>1</ul><ul data-live id="b"></ul>', {"a": '<ul data-live id="a"><li>1</ul>'}),
        ('<p data-live id="a">&lt;/p&gt;</p> <p>', {"a": '<p data-live id="a">&lt;/p&gt;</p>'}),
        ('<p data-live id="a">', {"a": '<p data-live id="a">'}),
    ],
)
def test_what_is_live_is_found(page, found):
    assert {name: part for name, part in find_fragments(page).items() if name in found} == found
    assert len(find_fragments(page)) == len(found) + ('id="b"' in page)


def test_one_inside_of_another_is_a_part_of_that():
    page = '<div id="a" data-live><div><div id="b" data-live></div></div></div><div id="c" data-live></div>'
    assert list(find_fragments(page)) == ["a", "c"]
    assert find_fragments(page)["a"].endswith("</div></div></div>")


def test_only_distances_are_no_change():
    first, second = (f'<p><time data-at="1.0" title="t">{words}</time> ago</p>' for words in ("1 s", "2 s"))
    assert strip_distances(first) == strip_distances(second)
    assert strip_distances("<p><time>03:00</time></p>") != strip_distances("<p><time>04:00</time></p>")
