"""``env-file``: variables of a file, as systemd reads them, and their values in output."""

import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike.commands.env_file import parse_variables
from redbike.commands.output import Mask
from redbike.errors import CommandFailed
from tests.commands.conftest import read_when_there
from tests.waiting import wait_until

READ = [
    ("A=1", {"A": "1"}),
    ("# no\n; no\n\n  A = 1 \nB=#2 ", {"A": "1", "B": "#2"}),
    ("A=\nB=''", {"A": "", "B": ""}),
    ("A=b=c $HOME `id` $(id) %s", {"A": "b=c $HOME `id` $(id) %s"}),
    ("A='one  two '\nB=\"it's\"", {"A": "one  two ", "B": "it's"}),
    (r'A="\"a\" \$x \\ \n"', {"A": r'"a" $x \ \n'}),
    (r"A=a\"b\\c\ d", {"A": r'a"b\c d'}),
    ("A=b\\   \nB=c\\\\ \nC=d\\\n", {"A": "b ", "B": "c\\", "C": "d"}),
    ("A='\\n'", {"A": "\\n"}),
    ("A=it's\nB=2", {"A": "it's", "B": "2"}),
    ("A='1\n2'\nB=\"3\n4\"", {"A": "1\n2", "B": "3\n4"}),
    ("A=one\\\ntwo\nB=2", {"A": "onetwo", "B": "2"}),
    ("A='a'\"b\"c", {"A": "abc"}),
    ("export A=1\nA=2", {"A": "2"}),
    ("", {}),
]
BAD = [
    ("A=1\nfoo", "line 2: NAME=VALUE is needed"),
    ("1A=2", "line 1: NAME=VALUE is needed"),
    ("A-B=secret", "line 1: NAME=VALUE is needed"),
    ("\n=x", "line 2: NAME=VALUE is needed"),
    ("A='secret\nB=2", "line 1: a quote is not closed"),
    ("REDBIKE_DATA=1", "line 1: 'REDBIKE_DATA' cannot be set here: Redbike sets it for each job"),
    ("A=a\0b", "line 1: a value contains a NUL byte"),
]


@pytest.mark.parametrize(("text", "found"), READ)
def test_it_is_read_as_systemd_does(text, found):
    assert parse_variables(text) == found


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_bad_line_is_named_and_no_value_quoted(work, tmp_path, text, said):
    (tmp_path / "env").write_text(text)
    with pytest.raises(CommandFailed) as caught:
        work("true", "env-file = env")
    assert str(caught.value).startswith(f"bad env-file '{tmp_path}/env': {said}")
    assert "secret" not in str(caught.value)


def test_it_is_read_at_each_run_and_overrides_the_section(work, tmp_path):
    for text in ("one", "two"):
        (tmp_path / "env").write_bytes(f"\ufeffA='{text} é'\r\n".encode())
        work("sh -c 'echo \"$A\" >got'", "cwd = .\nenv.A = section\nenv-file = env")
        assert (tmp_path / "got").read_text(encoding="utf-8") == f"{text} é\n"


@pytest.mark.parametrize("path", ["none", "/none/there", ".", "fifo"])
def test_what_cannot_be_read_fails_in_one_line(work, tmp_path, path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(
        CommandFailed, match=rf"^cannot read env-file '.*{path}': (No such file|Is a dir|it is no file)"
    ):
        work("true", f"env-file = {path}")


def test_it_is_said_once_that_every_user_may_read_it(work, commands, tmp_path, caplog):
    (tmp_path / "env").write_text("A=1")
    said = f"every user can read env-file '{tmp_path}/env': chmod o= prevents that"
    for mode, number in [(0o640, 0), (0o644, 1), (0o644, 1)]:
        (tmp_path / "env").chmod(mode)
        work("true", "env-file = env")
        assert caplog.messages.count(said) == number
    assert commands("[commands]\nx = true\n[*]\nenv-file = env").find_missing() == [said]
    (tmp_path / "env").unlink()
    assert "No such file" in commands("[commands]\nx = true\n[*]\nenv-file = env").find_missing()[0]


@given(
    st.lists(st.binary(min_size=1, max_size=12)),
    st.lists(st.sampled_from([b"abcd", b"abcdef", b"cdab", b"b", b"dabc"])),
)
def test_no_secret_leaves_a_mask_in_whatever_pieces_it_comes(noise, pieces):
    secrets = [b"abcd", b"abcdef", b"dabc\ncdab", b"no"]
    mask, text = Mask(secrets), b"".join(noise + pieces)
    shown = b"".join(map(mask.feed, (text[at : at + 3] for at in range(0, len(text), 3)))) + mask.feed(
        b"", is_last=True
    )
    assert not [secret for secret in (b"abcd", b"dabc", b"cdab") if secret in shown]
    assert Mask([b"no"]).feed(text) == text


def test_the_log_the_failure_and_what_is_kept_have_no_value(works, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "env").write_text("PASSWORD='top secret'\nKEY='first line\nsecond line'\nPORT=80")
    script = 'printf "top sec"; sleep 0.1; echo "ret $PORT"; echo "$KEY"; printf "$PASSWORD top se"; exit 3'
    state = works(script, "env-file = env\nshell = /bin/sh\noutput = 1000\non-failure = echo told $PASSWORD")
    wanted = "*** 80\n***\n***\n*** top se"  # what only looks like the beginning of one is not lost
    assert (state.failure["output"], state.failure["error"]) == (wanted, "exit status 3: *** top se")
    assert state.output == wanted
    assert "x:A: *** 80" in caplog.messages
    wait_until(lambda: "x:A: told ***" in caplog.messages)
    assert not [text for text in caplog.messages if "secret" in text or "line" in text]


def test_on_failure_runs_though_the_file_is_missing(works, tmp_path, caplog):
    works("true", "shell = /bin/sh\ncwd = .\nenv-file = none\non-failure = echo $REDBIKE_ERROR >new; mv new said")
    said = read_when_there(tmp_path / "said")
    assert said == f"cannot read env-file '{tmp_path}/none': No such file or directory\n"
