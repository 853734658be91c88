"""Let plain links between pages work on the site too, such as the link to ``scale.rst#the-limits``.

So a page reads the same on the site and as a file on a code host. A link to a page or a heading that is not there is a
warning, and so fails the build.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.logging import getLogger

log = getLogger(__name__)
ROOT = Path(__file__).parent
# The files beside the folder docs/ that are pages of the site, too.
_anchors: dict[str, set[str]] = {}  # of each page that another one has named
OUTSIDE = {"../README": "readme", "../CONTRIBUTING": "contributing", "../CHANGELOG": "changelog"}


class PlainLinks(SphinxPostTransform):
    """Turns links to files of pages into links to pages."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Change the links of one page."""
        for node in list(self.document.findall(nodes.reference)):
            parts = urlsplit(node.get("refuri", ""))
            if not parts.scheme and not parts.netloc and parts.path.endswith(".rst"):
                self._resolve(node, parts.path.removesuffix(".rst"), parts.fragment)

    def _resolve(self, node: nodes.reference, path: str, fragment: str) -> None:
        # A page that is included from outside names the others with their folder.
        name = OUTSIDE.get(path) or OUTSIDE.get(f"../{path}") or path.removeprefix("docs/")
        if name not in self.env.all_docs:
            log.warning("no page %r", name, location=node)
            return
        if fragment and fragment not in self._list_anchors(name):
            log.warning("the page %r has no heading or name %r", name, fragment, location=node)
        uri = self.app.builder.get_relative_uri(self.env.docname, name)
        if not uri and not fragment:
            node.replace_self(node.children)  # a man page is alone
            return
        node["refuri"] = f"{uri}#{fragment}" if fragment else uri
        node["internal"] = True

    def _list_anchors(self, name: str) -> set[str]:
        if name not in _anchors:
            # To read a page again takes a fifth of a second.
            tree = self.env.get_doctree(name)
            # Such as ``redbike.WorkerClass``, which Sphinx made from the code.
            kinds = (nodes.section, addnodes.desc_signature)
            _anchors[name] = {each for kind in kinds for node in tree.findall(kind) for each in node["ids"]}
        return _anchors[name]


class PlainImages(SphinxTransform):
    """Lets a page that is included from outside ``docs/`` name its pictures from there, as a code host wants it."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        """Change the paths of one page's pictures."""
        for node in self.document.findall(nodes.image):
            node["uri"] = node["uri"].removeprefix("docs/")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register them."""
    app.add_transform(PlainImages)
    app.add_post_transform(PlainLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
