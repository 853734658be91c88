"""Describe the package for an index: README.rst without links to files beside it, which do not exist there.

Everything else is in setup.cfg.
"""

import re
from pathlib import Path


def drop_links(text: str) -> str:
    """Return `text` without pictures, and with the words of its links alone, where these name no other host."""
    text = re.sub(r"^\.\. image:: (?!https:).*\n(?: +.*\n)*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"`([^`<]*?)\s*<(?!https:)[^>]*>`__", r"\1", text)


if __name__ == "__main__":
    from setuptools import setup

    setup(long_description=drop_links(Path(__file__).with_name("README.rst").read_text(encoding="utf-8")))
