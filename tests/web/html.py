"""Read pages as a person would, and find what a browser would take for markup."""

import re
from html.parser import HTMLParser

APART = {"button", "dd", "dt", "h1", "h2", "label", "legend", "li", "option", "p", "td", "th", "title"}
VOID = {"meta", "link", "input", "br", "hr", "img", "line", "path", "rect"}
KNOWN = {
    "a", "b", "body", "br", "button", "caption", "code", "dd", "details", "dialog", "div", "dl", "dt", "fieldset",
    "footer", "form", "h1", "h2", "head", "header", "html", "input", "kbd", "label", "legend", "li", "line", "link",
    "main", "meta", "nav", "noscript", "ol", "option", "p", "path", "pre", "rect", "script", "section", "select",
    "span", "strong", "summary", "svg", "table", "tbody", "td", "text", "th", "thead", "time", "title", "tr", "ul",
}  # fmt: skip


class Page(HTMLParser):
    """What a page has: its text, its links, its elements. It fails on elements that are not closed in order."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.text = ""
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self._open[-1:] == [tag], f"</{tag}> in {self._open}"
        self._open.pop()
        # As a person sees them: one below or beside the other.
        self.text += " " if tag in APART else ""

    def handle_data(self, data):
        self.text += data

    @property
    def words(self) -> str:
        """The text, with single blanks."""
        return " ".join(self.text.split())

    def lacks(self, *words: str) -> list[str]:
        """Those that are not in its text."""
        return [each for each in words if each not in self.words]


def read(answer, status=200):
    """The page of an answer, which must be one of ours: no markup, script or style of anybody else."""
    assert answer.status_code == status, answer.text[:2000]
    page = Page(answer.text)
    # A sentence that follows another one without a blank; ids and names have no blank behind them.
    assert not re.search(r"[a-z)\d]\.[A-Z\d][a-z]* [a-z]", page.text), page.words
    for tag, attributes in page.tags:
        assert tag in KNOWN or (tag, attributes.get("alt")) == ("img", ""), f"<{tag}>"
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        address = attributes.get("href") or attributes.get("src") or attributes.get("action") or ""
        assert not re.match(r"[a-z]+:|/", address, re.I), address
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert all(each.get("src", "").lstrip("./").startswith("static/") for each in scripts)
    hidden = [char for char in page.text if not (char.isprintable() or char in "\n\t")]
    assert hidden == [], f"characters that nobody sees: {hidden!r}"
    assert [tag for tag, _ in page.tags].count("h1") == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)), "an id twice"
    return page


def listed(page):
    """The jobs in the table, in its order."""
    found = [link for link in page.links if re.match(r"(\.\./)*job\?id=", link)]
    return [link.partition("=")[2].replace("%3A", ":") for link in found]


def follow(client, address, mark):
    """All pages from one on, by their links with this mark."""
    pages = []
    while address:
        pages.append(read(client.get(address)))
        following = [link for link in pages[-1].links if mark in link]
        address = f"/{following[0]}" if following else None
        assert len(pages) < 200
    return pages


def list_all(client, address, mark):
    """The jobs of all pages that follow one another, and these pages."""
    pages = follow(client, address, mark)
    return [jobid for each in pages for jobid in listed(each)], pages
