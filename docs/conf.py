"""How Sphinx makes the site of these pages: ``make docs``."""

import sys
from pathlib import Path

import redbike

# The extensions are beside this file.
sys.path.insert(0, str(Path(__file__).parent))

project = "Redbike"
release = version = redbike.__version__
extensions = ["sphinx.ext.autodoc", "plain_links", "sources"]
html_theme = "furo"
# README.rst links to it.
html_extra_path = ["../LICENSE"]
# The check of links looks for it beside the page; a link within the site needs no check there.
linkcheck_ignore = [f"{Path(each).name}$" for each in html_extra_path]
html_title = "Redbike"
exclude_patterns = ["_build"]
highlight_language = "none"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# A reference in single backquotes is for readers of the code; on the site it is code too.
default_role = "code"
# The types in signatures are often of the standard library or of redis-py, whose pages are elsewhere.
nitpick_ignore_regex = [("py:.*", ".*")]
man_pages = [("reference-commands", "redbike", "schedule jobs with Redis or Valkey", "", 1)]
