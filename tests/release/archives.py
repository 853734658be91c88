"""The sdist and the wheel: build them, make them the same each time, compare them with what is tracked."""

import gzip
import io
import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.release.commands import Fault, run

# Files of an sdist that setuptools writes itself. It takes the comments out of setup.cfg.
WRITTEN = ("PKG-INFO", "redbike.egg-info/", "setup.cfg")


def build(tree: Path, epoch: int) -> list[Path]:
    """Return the sdist and the wheel of a clone in `tree`; `epoch` is the time of each file in them."""
    run(
        sys.executable,
        "-m",
        "build",
        "--outdir",
        tree / "dist",
        tree,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
    )
    [sdist], [wheel] = (tree / "dist").glob("*.tar.gz"), (tree / "dist").glob("*.whl")
    repack(sdist, epoch)
    return [sdist, wheel]


def repack(sdist: Path, epoch: int) -> None:
    """Write `sdist` again, without times, owners and an order that another build would not have."""
    with tarfile.open(sdist) as source:
        members = sorted((each for each in source if each.isfile()), key=lambda each: each.name)
        contents = [opened.read() for each in members if (opened := source.extractfile(each))]
    with (
        open(sdist, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member, content in zip(members, contents, strict=True):
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mtime = len(content), epoch
            entry.mode = 0o755 if member.mode & 0o100 else 0o644
            target.addfile(entry, io.BytesIO(content))


def read_description(wheel: Path) -> str:
    """Return the description that an index shows."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def read_wheel(wheel: Path) -> dict[str, bytes]:
    """Return the files of the wheel, without those that say what it is."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def check_links(description: str) -> None:
    """Raise `Fault` if a link or picture of a description names a file: an index has only the description."""
    for link, picture in re.findall(r"<([^<>]+)>`_|^\.\. image:: (.+)", description, re.MULTILINE):
        if not (target := link or picture).startswith("https://"):
            raise Fault(f"the description has a link to {target!r}, which an index does not have")


def read_sdist(sdist: Path) -> dict[str, bytes]:
    """Return the files of the sdist, without those that setuptools writes."""
    with tarfile.open(sdist) as archive:
        files = {each.name.partition("/")[2]: archive.extractfile(each) for each in archive if each.isfile()}
        return {name: file.read() for name, file in files.items() if file and not name.startswith(WRITTEN)}


def read_tracked(tree: Path) -> dict[str, bytes]:
    """Return the files that git tracks in `tree`."""
    names = run("git", "ls-files", "-z", cwd=tree).split("\0")[:-1]
    return {name: (tree / name).read_bytes() for name in names}


def compare(archive: str, found: dict[str, bytes], tracked: dict[str, bytes]) -> None:
    """Raise `Fault` unless the files of `archive` are those that are tracked."""
    for name in sorted(found.keys() | tracked.keys()):
        if name not in found:
            raise Fault(f"{name!r} is missing from the {archive}")
        if name not in tracked:
            raise Fault(f"the {archive} has {name!r}, which is not tracked")
        if found[name] != tracked[name]:
            raise Fault(f"{name!r} in the {archive} differs from what is tracked")


def compare_all(sdist: Path, wheel: Path, tracked: dict[str, bytes]) -> None:
    """Compare both archives: the wheel has the package, the sdist has everything."""
    package = {name: content for name, content in tracked.items() if name.startswith("redbike/")}
    compare("wheel", read_wheel(wheel), package)
    compare("sdist", read_sdist(sdist), {name: each for name, each in tracked.items() if not name.startswith(WRITTEN)})
