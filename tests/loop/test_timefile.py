"""The timefile: whatever is found in its place is used or reported, never fatal."""

import os
import subprocess
import sys

import pytest

from redbike.loop.timefile import Timefile

NOW = 1_700_000_000.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "redbike.timefile"


def test_what_is_written_is_read(path):
    assert Timefile(path).write(NOW - 0.25)
    assert Timefile(path).read(NOW) == NOW - 0.25
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_no_file_is_no_time_and_no_complaint(path, caplog):
    assert Timefile(path).read(NOW) is None
    assert caplog.text == ""


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\n", b"soon\n", b"-1\n", b"1e9\n", b"nan\n", b"170\0000000\n", b"1\n2\n", b"9" * 10_000),
        *(b"1700000000.5", b"170000000", b"17000000000"),  # torn, or of no second
        b"2015360000",  # in the future
    ],
)
def test_a_file_that_holds_no_time_is_reported_and_ignored(path, caplog, content):
    path.write_bytes(content)
    assert Timefile(path).read(NOW) is None
    assert "ignored" in caplog.text
    assert ("future" in caplog.text) == (content == b"2015360000")


def test_a_file_torn_at_any_byte_is_never_taken_for_another_time(path):
    Timefile(path).write(NOW)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert Timefile(path).read(NOW) == (NOW if size == 10 else None)
    # That is also the file that Redbike 0.13.1 leaves.
    path.write_bytes(b"1699999999")
    assert Timefile(path).read(NOW) == 1_699_999_999.0


def test_a_complaint_is_logged_once_until_all_is_well_again_or_a_while_has_passed(path, caplog, monkeypatch):
    kept = Timefile(path)
    path.mkdir()
    for _ in range(3):
        assert not kept.write(NOW)
        assert kept.read(NOW) is None
    assert caplog.text.count("is not written") == 1 == caplog.text.count("ignored")
    path.rmdir()
    assert kept.write(NOW)
    path.unlink()
    path.mkdir()
    for _ in range(2):
        assert not kept.write(NOW)
        assert caplog.text.count("is not written") == 2
    monkeypatch.setattr("redbike.loop.timefile.REMINDER", 0.0)
    assert not kept.write(NOW)
    assert caplog.text.count("is not written") == 3


def test_what_is_no_regular_file_is_never_replaced(tmp_path, caplog):
    """A device, as root: here a FIFO stands for it, which anyone may make."""
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    for path in (fifo, link):
        assert not Timefile(path).write(NOW)
        assert Timefile(path).read(NOW) is None
    assert fifo.is_fifo()
    assert caplog.text.count("no regular file") == 4


def test_a_link_is_followed_and_kept(path, tmp_path):
    target = tmp_path / "elsewhere"
    path.symlink_to(target)
    Timefile(path).write(NOW)
    assert path.is_symlink()
    assert target.exists()
    assert Timefile(path).read(NOW) == NOW


# Not even root may write into /proc, or have such a long name.
@pytest.mark.parametrize("place", ["gone/file", "/proc/self/timefile", "x" * 300])
def test_where_it_cannot_be_written_that_is_reported(tmp_path, caplog, place):
    assert not Timefile(tmp_path / place).write(NOW)
    assert "cannot be written" in caplog.text


def test_a_full_disk_leaves_the_old_time(path):
    Timefile(path).write(NOW)
    # A limit on the size of files is as good as a full disk: the write fails halfway.
    code = (
        "import resource, signal, sys; from redbike.loop.timefile import Timefile;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3, 3));"
        "sys.exit(Timefile(sys.argv[1]).write(1.0))"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Timefile(path).read(NOW) == NOW
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["link", "fifo", "file"])
def test_what_stands_where_it_is_drafted_is_not_written_to(path, tmp_path, kind):
    victim, draft = tmp_path / "victim", path.with_name(f".{path.name}.{os.getpid()}")
    victim.write_text("precious")
    if kind == "fifo":
        os.mkfifo(draft)
    else:
        draft.symlink_to(victim) if kind == "link" else os.link(victim, draft)
    assert Timefile(path).write(NOW)
    assert Timefile(path).read(NOW) == NOW
    assert victim.read_text() == "precious"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_relative_one_stays_where_it_is_when_a_job_has_changed_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    timefile = Timefile("kept")
    monkeypatch.chdir("/")
    assert timefile.write(NOW)
    assert (tmp_path / "kept").is_file()
    assert timefile.read(NOW) == NOW
