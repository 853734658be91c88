"""What the sources say of the release: its version, its date, its Pythons and its dependencies."""

import re
from configparser import ConfigParser
from datetime import date, timedelta
from pathlib import Path

from tests.release.commands import Fault

HEADING = re.compile(r"^(\S.*)\n-+$", re.MULTILINE)
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?(\.dev\d+)?")


def read_version(root: Path) -> str:
    """Return the version, which is written in one place."""
    found = re.findall(r'^__version__ = "(.*)"$', (root / "redbike/text/__init__.py").read_text(), re.MULTILINE)
    if len(found) != 1 or not VERSION.fullmatch(found[0]):
        raise Fault(f"redbike/text/__init__.py has no version such as 2.1.3: {found!r}")
    return str(found[0])


def check_changelog(version: str, changelog: str, committed: date) -> None:
    """Compare the version, and the date of the last commit, with the first heading of the changelog.

    A version for development has the heading "Unreleased". The date may differ by a day, as time zones do.
    """
    heading = found[1] if (found := HEADING.search(changelog)) else "no heading"
    if "dev" in version:
        if heading != "Unreleased":
            raise Fault(f"the version is {version!r}, but CHANGELOG.rst begins with {heading!r}, not 'Unreleased'")
        return
    dated = re.fullmatch(rf"{re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)", heading)
    if not dated:
        wanted = f"{version} ({committed})"
        raise Fault(f"the version is {version!r}, but CHANGELOG.rst begins with {heading!r}, not {wanted!r}")
    try:
        released = date.fromisoformat(dated[1])
    except ValueError:
        raise Fault(f"CHANGELOG.rst has an invalid date: {dated[1]!r}") from None
    if abs(released - committed) > timedelta(days=1):
        raise Fault(f"CHANGELOG.rst says {heading!r}, but the last commit is of {committed}")


class Setup:
    """What setup.cfg says of an installation."""

    def __init__(self, text: str) -> None:
        parser = ConfigParser()
        parser.read_string(text)
        extras = parser["options.extras_require"]
        self.is_beta = ":: 4 - Beta" in parser["metadata"]["classifiers"]
        self.pythons = re.findall(r":: Python :: (3\.\d+)$", parser["metadata"]["classifiers"], re.MULTILINE)
        # Those that users install: the tests need all of them.
        self.extras = re.findall(r"redbike\[(.*)\]", extras["test"])[0].split(",")
        self.required = parser["options"]["install_requires"].split("\n")[1:]
        self.required += [line for extra in self.extras for line in extras[extra].split("\n")[1:]]

    def check_status(self, version: str) -> None:
        """Raise `Fault` if the classifiers call a final version a beta."""
        if self.is_beta and re.fullmatch(r"[\d.]+", version):
            raise Fault(f"the version is {version!r}, but setup.cfg has the classifier '4 - Beta'")

    def pin_oldest(self) -> list[str]:
        """Return each dependency with the oldest version that it may have."""
        for line in self.required:
            if not re.fullmatch(r"[\w-]+ >= [\d.]+", line):
                raise Fault(f"setup.cfg has a dependency without a lower bound: {line!r}")
        return [line.replace(" >= ", "==") for line in self.required]
