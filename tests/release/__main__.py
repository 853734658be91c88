"""Try a release of the last commit: what its sources say, what is built of them, what a user installs.

usage: python -m tests.release

Exits 1 with one line at the first fault. Without one, the folder dist/ has the sdist, the wheel, the SBOM and the list
of licences. Nothing is uploaded: the last lines are the commands for that. See docs/releasing.rst.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.commandline import ROOT
from tests.release import archives, installed, licences, versions
from tests.release.commands import Fault, run

ADOPTION = "tests/store/inspection/test_leftovers.py"  # data of the release before, which this one takes over


class Release:
    """The last commit, cloned to `work` and tried there step by step."""

    def __init__(self, work: Path) -> None:
        self.work, self.trees = work, [work / "one", work / "the-other-one"]
        self.epoch = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
        self.setup = versions.Setup((ROOT / "setup.cfg").read_text())
        self.version = versions.read_version(ROOT)
        self.out = work / "dist"

    def steps(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yield each step: its name, and what does it and returns what it found."""
        yield "commit", self.check_commit
        yield "version", self.check_version
        yield "build, twice", self.build
        yield "contents", self.check_contents
        yield "data of before", self.adopt
        for python in self.setup.pythons:
            for choice in ("newest", "oldest"):
                yield f"Python {python}, {choice}", partial(self.install, python, choice)
        yield "licences", self.check_licences

    def check_commit(self) -> str:
        if changed := run("git", "status", "--porcelain", cwd=ROOT).splitlines():
            raise Fault(f"not committed: {', '.join(repr(line[3:]) for line in changed[:3])}")
        return run("git", "log", "-1", "--format=%h of %cs", cwd=ROOT).strip()

    def check_version(self) -> str:
        committed = datetime.fromtimestamp(self.epoch, UTC).date()
        versions.check_changelog(self.version, (ROOT / "CHANGELOG.rst").read_text(), committed)
        self.setup.check_status(self.version)
        tag = ("git", "tag", "--list", f"v{self.version}")
        if run(*tag, cwd=ROOT) and not run(*tag, "--points-at", "HEAD", cwd=ROOT):
            raise Fault(f"the tag v{self.version} is at another commit")
        return f"{self.version}, as in CHANGELOG.rst"

    def build(self) -> str:
        for tree in self.trees:
            run("git", "clone", "--quiet", ROOT, tree)
        built = [archives.build(tree, self.epoch) for tree in self.trees]
        for one, other in zip(*built, strict=True):
            if one.read_bytes() != other.read_bytes():
                raise Fault(f"two builds of {one.name} differ")
        self.sdist, self.wheel = (Path(shutil.copy(each, self.out)) for each in built[0])
        return f"the same bytes: {self.sdist.name}, {self.wheel.name}"

    def check_contents(self) -> str:
        run(sys.executable, "-m", "twine", "check", "--strict", self.sdist, self.wheel)
        archives.check_links(archives.read_description(self.wheel))
        tracked = archives.read_tracked(self.trees[1])
        archives.compare_all(self.sdist, self.wheel, tracked)
        return f"twine has no objection; all {len(tracked)} files that are tracked, and no other"

    def adopt(self) -> str:
        return run(sys.executable, "-m", "pytest", "-q", "-n2", ADOPTION, cwd=ROOT).strip().splitlines()[-1]

    def install(self, python: str, choice: str) -> str:
        if not (program := installed.find_python(python)):
            return "NOT TRIED: this machine does not have it"
        folder = self.work / f"{python}-{choice}"
        pins = self.setup.pin_oldest() if choice == "oldest" else []
        programs = installed.install(program, folder, self.wheel, self.setup.extras, pins)
        servers = {"Valkey": None, "Redis": shutil.which("redis-server")}
        tried = [name for name, server in servers.items() if server or name == "Valkey"]
        for name in tried:
            installed.try_out(programs, self.work / f"{python}-{choice}-{name}", self.version, servers[name])
        if choice == "oldest":  # of the other, the licences are read
            installed.uninstall(programs)
        return f"the example of README.rst runs on {' and on '.join(tried)}"

    def check_licences(self) -> str:
        tried = [self.work / f"{python}-newest" / "bin" for python in self.setup.pythons]
        programs = next((each for each in tried if each.exists()), None)
        if not programs:
            raise Fault(f"this machine has none of the Pythons {', '.join(self.setup.pythons)}")
        sbom = licences.write_sbom(programs, self.out / f"redbike-{self.version}.cdx.json", self.epoch)
        rows = [f"{name} {version}: {licence}\n" for name, version, licence in licences.list_licences(sbom)]
        (self.out / f"redbike-{self.version}.licences.txt").write_text("".join(rows))
        return f"{len(rows)} packages, all compatible"

    def print_rest(self) -> None:
        """Print what a maintainer does next."""
        if "dev" in self.version:
            print(f"\nThis was a rehearsal: {self.version} is not for a release. See docs/releasing.rst.")
            return
        print("\nWhat is left to do, in the folder of the sources:")
        print(f"  git tag --sign -m 'Redbike {self.version}' v{self.version}")
        print(f"  git push origin v{self.version}")
        print(f"  {sys.executable} -m twine upload dist/{self.sdist.name} dist/{self.wheel.name}")


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so the processes that it has started end with it
    os.umask(0o022)  # files of a wheel have the rights of those in the clone
    name = "sources"
    with tempfile.TemporaryDirectory(prefix="redbike-release-") as work:
        try:
            release = Release(Path(work))
            release.out.mkdir()
            for name, step in release.steps():
                began = time.monotonic()
                said = step()
                print(f"{name:<20} {time.monotonic() - began:4.0f} s  {said}", flush=True)
        except (Fault, AssertionError, OSError) as fault:
            print(f"release: {name}: {' '.join(str(fault).split()) or repr(fault)}", file=sys.stderr)
            return 1
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(release.out, ROOT / "dist")
        release.print_rest()
    return 0


if __name__ == "__main__":
    sys.exit(main())
