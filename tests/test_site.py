"""The documentation as a site: it is built without a warning, its links lead somewhere, its reference is complete."""

import dataclasses
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import redbike
from redbike.cli.entry import __doc__ as text
from redbike.cli.usage import Usage
from redbike.config import Settings
from redbike.options import OPTIONS
from redbike.state.keys import FIXED
from tests.commandline import ROOT

pytestmark = pytest.mark.timeout(900)  # it takes a while on a busy machine


def build(kind, docs, target):
    """Run Sphinx as ``make docs`` does."""
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", kind, str(docs), str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build("html", ROOT / "docs", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.text = set(), set(), path.read_text()
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.add(found.get("id"))
        if tag == "a" and "href" in found:
            self.links.add(found["href"])


def test_every_link_within_the_site_leads_to_a_page_and_a_heading(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 20
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), (path.name, link)
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, (path.name, link)
            checked += 1
    assert checked > 500


def test_the_reference_has_every_command_setting_option_name_and_key(site):
    commands = Page(site / "reference-commands.html")
    assert set(Usage(text).lines) <= commands.ids
    settings = Page(site / "reference-settings.html").text
    for name in OPTIONS:
        assert f">{name}<" in settings, name
    for field in dataclasses.fields(Settings):
        assert f"\n{field.name.replace('_', '-')}:" in settings, field.name
    names = Page(site / "reference-python.html").ids
    assert {f"redbike.{name}" for name in redbike.__all__} - names == {"redbike.log"}
    keys = Page(site / "reference-keys.html").text
    for name in FIXED:
        assert f">-{name}<" in keys, name


def test_the_man_page_comes_from_the_same_source(tmp_path):
    done = build("man", ROOT / "docs", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "redbike.1").read_text()
    assert "<>" not in page
    for command in Usage(text).lines:
        assert f".SS {command}\n" in page or f".SH {command.upper()}\n" in page, command


@pytest.mark.parametrize(
    ("link", "said"),
    [("nowhere.rst", "no page 'nowhere'"), ("scale.rst#nowhere", "the page 'scale' has no heading 'nowhere'")],
)
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path, link, said):
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("conf.py", "plain_links.py", "sources.py"):
        shutil.copy(ROOT / "docs" / name, docs)
    (docs / "scale.rst").write_text("Scale\n=====\n")
    (docs / "index.rst").write_text(f"A\n=\n\n`There <{link}>`__\n\n.. toctree::\n\n   scale\n")
    done = build("html", docs, tmp_path / "site")
    assert done.returncode == 1
    assert said in done.stderr
