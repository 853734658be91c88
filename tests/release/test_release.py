"""The checks of a release find what they are for."""

import io
import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from contextlib import nullcontext
from datetime import date

import pytest

from tests.commandline import ROOT
from tests.release.archives import check_links, compare_all, repack
from tests.release.commands import Fault, run
from tests.release.licences import list_licences
from tests.release.versions import Setup, check_changelog, read_version

TRACKED = {"redbike/text.py": b"text = 1\n", "docs/index.rst": b"Index\n", "setup.cfg": b"[metadata]\n"}
SETUP = Setup((ROOT / "setup.cfg").read_text())


def expect(said):
    """Expect a fault that says so, or none."""
    return pytest.raises(Fault, match=said) if said else nullcontext()


def write_sdist(path, files, mtime=0, owner="root"):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"redbike-2.0.0/{name}")
            member.size, member.mtime, member.uname = len(content), mtime, owner
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("archive", "change", "said"),
    [
        ("wheel", {"redbike/text.py": None}, "'redbike/text.py' is missing from the wheel"),
        ("wheel", {"redbike/text.py": b""}, "'redbike/text.py' in the wheel differs from what is tracked"),
        ("wheel", {"redbike/new.py": b""}, "the wheel has 'redbike/new.py', which is not tracked"),
        ("sdist", {"docs/index.rst": None}, "'docs/index.rst' is missing from the sdist"),
        ("sdist", {"docs/index.rst": b""}, "'docs/index.rst' in the sdist differs from what is tracked"),
        ("sdist", {"notes": b""}, "the sdist has 'notes', which is not tracked"),
        (None, {}, None),
    ],
)
def test_a_file_that_is_missing_changed_or_not_tracked_is_found(tmp_path, archive, change, said):
    def apply(name, files):
        changed = files | change if name == archive else files
        return {name: content for name, content in changed.items() if content is not None}

    own = {"redbike-2.0.0.dist-info/METADATA": b"", "redbike/text.py": TRACKED["redbike/text.py"]}
    with zipfile.ZipFile(tmp_path / "wheel", "w") as wheel:
        for name, content in apply("wheel", own).items():
            wheel.writestr(name, content)
    sdist = write_sdist(tmp_path / "sdist", apply("sdist", TRACKED | {"PKG-INFO": b"", "setup.cfg": b"rewritten"}))
    with expect(said and f"^{re.escape(said)}$"):
        compare_all(sdist, tmp_path / "wheel", TRACKED)


def test_the_description_of_the_package_has_no_links_to_files():
    """It is README.rst, where an index shows it: without the files beside it."""
    whole = (ROOT / "README.rst").read_text()
    with pytest.raises(Fault, match=r"a link to 'docs/pictures/terminal\.svg'"):
        check_links(whole)
    described = runpy.run_path(str(ROOT / "setup.py"))["drop_links"](whole)
    check_links(described)
    assert "takes over a crontab, and" in described
    assert "<" not in described.replace("<https://", "")


def test_an_sdist_of_another_time_owner_and_order_becomes_the_same(tmp_path):
    one = write_sdist(tmp_path / "one", TRACKED)
    other = write_sdist(tmp_path / "other", dict(reversed(TRACKED.items())), mtime=9, owner="amy")
    for each in (one, other):
        repack(each, 1_700_000_000)
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as archive:
        assert archive.extractfile("redbike-2.0.0/docs/index.rst").read() == b"Index\n"


@pytest.mark.parametrize(
    ("version", "heading", "said"),
    [
        ("2.1.0.dev0", "Unreleased", None),
        ("2.1.0.dev0", "2.0.0 (2026-12-01)", "not 'Unreleased'"),
        ("2.1.0", "2.1.0 (2026-12-02)", None),
        ("2.1.0", "2.0.0 (2026-12-01)", r"not '2.1.0 \(2026-12-01\)'"),
        ("2.1.0", "Unreleased", r"not '2.1.0 \(2026-12-01\)'"),
        ("2.1.0", "2.1.0 (2026-12-03)", "the last commit is of 2026-12-01"),
        ("2.1.0", "2.1.0 (2026-13-01)", "invalid date: '2026-13-01'"),
    ],
)
def test_a_version_that_differs_from_the_changelog_is_found(version, heading, said):
    text = f"Changes\n=======\n\n{heading}\n----------\n\n- A fix.\n\n1.0.0\n-----\n"
    with expect(said):
        check_changelog(version, text, date(2026, 12, 1))


@pytest.mark.parametrize("line", ['__version__ = "2.0"', "", '__version__ = "2.0.0"\n__version__ = "2.0.1"'])
def test_a_version_that_is_none_or_two_is_found(tmp_path, line):
    (tmp_path / "redbike" / "text").mkdir(parents=True)
    (tmp_path / "redbike" / "text" / "__init__.py").write_text(f"{line}\n")
    with pytest.raises(Fault, match="has no version such as"):
        read_version(tmp_path)


def test_a_final_version_that_is_called_a_beta_is_found():
    beta = Setup((ROOT / "setup.cfg").read_text().replace("5 - Production/Stable", "4 - Beta"))
    beta.check_status("2.1.0.dev0")
    beta.check_status("2.1.0rc1")
    with pytest.raises(Fault, match=r"the version is '2\.1\.0', but setup\.cfg has the classifier '4 - Beta'"):
        beta.check_status("2.1.0")
    Setup((ROOT / "setup.cfg").read_text().replace("4 - Beta", "5 - Production/Stable")).check_status("2.1.0")


@pytest.mark.parametrize(
    ("licences", "said"),
    [
        ([{"expression": "Apache-2.0 AND BSD-2-Clause"}], None),
        ([{"license": {"id": "MIT"}}, {"license": {"name": "License :: OSI Approved :: MIT License"}}], None),
        ([{"expression": "(GPL-3.0-only OR MIT) AND ISC"}], None),
        ([{"expression": "MIT AND GPL-3.0-only"}], "one 1.0 has a licence .*: 'MIT AND GPL-3.0-only'"),
        ([{"license": {"id": "MIT"}}, {"license": {"id": "AGPL-3.0-only"}}], "AGPL"),
        ([{"license": {"name": "Proprietary"}}], "'Proprietary'"),
        ([], "'none'"),
    ],
)
def test_a_licence_that_is_not_known_is_found(licences, said):
    sbom = {"components": [{"name": "one", "version": "1.0", "licenses": licences}]}
    with expect(said):
        assert len(list_licences(sbom)) == 1


def test_each_dependency_that_users_install_has_an_oldest_version():
    assert {"redis==8.1", "icalendar==7.0", "uvicorn==0.54"} <= {*SETUP.pin_oldest()}
    unbound = Setup((ROOT / "setup.cfg").read_text().replace("redis >= 8.1", "redis"))
    with pytest.raises(Fault, match="without a lower bound: 'redis'"):
        unbound.pin_oldest()


def test_a_program_that_fails_is_a_fault_with_its_last_line():
    with pytest.raises(Fault, match=r"^'bash -c .*' ended with 3: second$"):
        run("bash", "-c", "echo first; echo second; exit 3")


def test_the_hosted_nightly_has_all_parts_and_pythons():
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    parts = re.search(r"^nightly:.*\n\t\$\(MAKE\) (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"^ {10}- ([a-z-]+)$", nightly, re.MULTILINE) == parts[1].split()
    assert sorted(re.findall(r"^ +(3\.\d+)$", nightly, re.MULTILINE)) == SETUP.pythons


@pytest.mark.acceptance
def test_the_command_ends_with_one_line_at_the_first_fault(tmp_path):
    clone = tmp_path / "clone"
    run("git", "clone", "--quiet", ROOT, clone)
    (clone / "LICENSE").write_text("")
    (clone / "notes").write_text("")
    assert try_release(clone) == "release: commit: not committed: 'LICENSE', 'notes'\n"
    tag = f"v{read_version(clone)}"
    run("git", "tag", tag, cwd=clone)
    run("git", "add", "--all", cwd=clone)
    run("git", "-c", "user.name=Amy", "-c", "user.email=", "commit", "--quiet", "--message=Change", cwd=clone)
    assert try_release(clone) == f"release: version: the tag {tag} is at another commit\n"
    assert not (clone / "dist").exists()


def try_release(clone):
    command = [sys.executable, "-m", "tests.release"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr
