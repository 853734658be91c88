"""Commands, with real processes."""

import logging
import os
import shlex
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import redbike.commands.file
import redbike.commands.output
import redbike.commands.status
import redbike.commands.worker
from redbike.commands.child import Child
from redbike.commands.output import LOG_LIMIT
from redbike.commands.worker import Commands
from redbike.config.file import OF_RUN
from redbike.errors import BadConfig, CommandFailed, Overrun
from tests.commands.conftest import LONG, a_run, over_when_ready
from tests.loops import raising
from tests.waiting import SLOWNESS, wait_until

PYTHON = shlex.quote(sys.executable)

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart" / "commands.ini"


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, "redbike.commands")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "redbike.commands"]


# Which command, and what it is given


def test_the_first_part_of_a_job_id_names_the_command_and_the_file_is_read_once(tmp_path, commands, as_run, logged):
    worker = commands("[commands]\nbackup: echo one\nBackup = echo two\nA: echo three\n", "A:B")
    assert list(worker.queue_names()) == ["work-A", "work-B", "work-shell"]
    assert worker.queue_for("x:B") == "work-B"
    worker.timeout("work-A")
    (tmp_path / "commands.ini").unlink()
    for jobid in ("backup:A", "backup:db1:A", "Backup:A", "A"):
        assert worker.work(jobid) is None
    assert logged() == ["backup:A: one", "backup:db1:A: one", "Backup:A: two", "A: three"]


@pytest.mark.parametrize("jobid", ["other:A", ":A", "BACKUP:A", "commands:A", "DEFAULT:A", "backup.x:A"])
def test_a_job_without_a_command_fails(commands, jobid):
    worker = commands("[commands]\nbackup: echo\n[backup]\ntimeout = 1\n")
    with pytest.raises(CommandFailed, match=rf"no command '{jobid.partition(':')[0]}' in .*commands\.ini$"):
        worker.work(jobid)


@pytest.mark.parametrize(
    "jobid",
    ["x;touch pwned:A", "x:$(touch pwned)`touch pwned`:A", "x:'; touch pwned; ':A", "x:*:~:\\:%s:\u202e:A", "--x:A"],
)
def test_a_job_id_is_never_code(work, tmp_path, jobid):
    work("sh -c 'echo $REDBIKE_JOBID; printf %s \"$REDBIKE_JOBID\" > got'", "cwd = .", a_run(jobid))
    assert (tmp_path / "got").read_text(encoding="utf-8") == jobid
    assert sorted(path.name for path in tmp_path.iterdir()) == ["commands.ini", "got"]


def test_the_environment_is_the_workers_and_the_files_but_not_the_urls(work, logged, monkeypatch):
    urls = ("REDBIKE_URL", "REDIS_URL", "REDBIKE_DISPATCHER_PING_URL", "REDBIKE_PING_URL")
    for name in (*urls, "REDBIKE_ALERT", "REDBIKE_WEB_TOKEN", "INHERITED", "CHANGED", "REDBIKE_JOBID"):
        monkeypatch.setenv(name, "redis://:secret@host")
    work("env", "env.CHANGED = a = b: $HOME %s\nenv.lower_1 =\nenv.EURO = €")
    lines = [line.removeprefix("x:A: ") for line in logged()]
    assert {"CHANGED=a = b: $HOME %s", "lower_1=", "EURO=€", "REDBIKE_JOBID=x:A"} <= set(lines)
    assert [line for line in lines if "secret" in line] == ["INHERITED=redis://:secret@host"]


@pytest.mark.parametrize(
    ("line", "due", "options", "printed"),
    [
        ("printenv REDBIKE_DUE", 1_700_000_000.25, "", ["1700000000.25"]),
        ("printenv REDBIKE_DUE", 10.0, "", ["10"]),
        # of all URLs, those that the file sets
        ("printenv REDIS_URL", 1e9, "env.REDIS_URL = redis://elsewhere", ["redis://elsewhere"]),
        # its line as it is: no shell reads it
        ("""echo $HOME ~ * | 'a  b' "c;d" > x # %(y)s""", 1e9, "", ["$HOME ~ * | a  b c;d > x # %(y)s"]),
        ("sh -c '\n  echo one;\n  echo two'", 1e9, "", ["one", "two"]),
        # and an empty standard input
        ("cat", 1e9, "", []),
    ],
)
def test_what_a_command_is_given(work, logged, line, due, options, printed):
    assert work(line, options, a_run(due=due)) is None
    assert logged() == [f"x:A: {text}" for text in printed]


def test_cwd_is_relative_to_the_file(tmp_path, monkeypatch, as_run, logged):
    (tmp_path / "etc" / "sub").mkdir(parents=True)
    program = tmp_path / "etc" / "sub" / "run"
    program.write_text("#!/bin/sh\npwd -P\n")
    program.chmod(0o755)
    text = f"[commands]\na: ./run\nb: pwd -P\nc: pwd -P\n[a]\ncwd = sub\n[b]\ncwd = {tmp_path}\n"
    (tmp_path / "etc" / "jobs.ini").write_text(text)
    monkeypatch.chdir(tmp_path)
    worker = Commands("A", "etc/jobs.ini")
    monkeypatch.chdir("/")
    for jobid in ("a:A", "b:A", "c:A"):
        worker.work(jobid)
    real = tmp_path.resolve()
    assert logged() == [f"a:A: {real}/etc/sub", f"b:A: {real}", "c:A: /"]


# How a run ends


@pytest.mark.parametrize(
    ("line", "options", "pause"),
    [("true", "", None), ("sh -c 'exit 75'", "backoff = 5m", 300.0), ("sh -c 'exit 75'", "backoff = 0", 0.0)],
)
def test_exit_status_0_is_done_and_75_backs_off(work, line, options, pause):
    assert work(line, options) == pause


NONE = "No such file or directory"


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("false", "", "exit status 1"),
        ("sh -c 'echo fine; echo broken >&2; echo; exit 3'", "", "exit status 3: broken"),
        (r"sh -c 'printf \\033[31mred\\377\\r\\n; exit 4'", "", r"exit status 4: \x1b[31mred\xff"),
        ("sh -c 'echo last; kill -KILL $$'", "", "killed by SIGKILL: last"),
        ("sh -c 'kill -35 $$'", "", "killed by signal 35"),
        ("/no/such/program --now", "", f"cannot run 'x': {NONE}: '/no/such/program'"),
        ("true", "cwd = /no/such/folder", f"cannot run 'x': {NONE}: '/no/such/folder'"),
        ("./commands.ini", "cwd = .", "cannot run 'x': Permission denied: './commands.ini'"),
        ("./script", "cwd = .", "cannot run 'x': Exec format error: './script'"),
    ],
)
def test_a_failure_says_how_and_what_was_printed_last(work, tmp_path, line, options, message):
    (tmp_path / "script").write_text("echo it has no first line\n")
    (tmp_path / "script").chmod(0o755)
    with pytest.raises(CommandFailed) as caught:
        work(line, options)
    assert str(caught.value) == message


def test_a_failure_has_the_tail_of_the_output_bounded(work):
    script = "import sys; [print(i) for i in range(50_000)]; print('y' * 1000); sys.exit(7)"
    with pytest.raises(CommandFailed) as caught:
        work(f'{PYTHON} -c "{script}"')
    assert str(caught.value) == "exit status 7: " + "y" * 300
    assert "\n49998\n49999\nyyy" in caught.value.output
    assert 4000 < len(caught.value.output) < 8000


# Overruns


@pytest.mark.parametrize(("options", "seconds"), [("timeout = 0.2", LONG), ("timeout = 1h", 0.2)])
def test_a_command_is_ended_when_its_time_is_over(work, options, seconds):
    began = time.monotonic()
    with pytest.raises(Overrun):
        work("sleep 300", options, a_run(seconds=seconds))
    assert time.monotonic() - began >= 0.19


def test_nothing_is_started_without_time(work, tmp_path):
    with pytest.raises(Overrun):
        work("touch started", "cwd = .", a_run(seconds=0.0))
    assert not (tmp_path / "started").exists()


def test_sigterm_lets_a_command_clean_up(work, logged):
    with over_when_ready(), pytest.raises(Overrun):
        work("""sh -c 'trap "echo bye; exit 0" TERM; echo ready; sleep 300 & wait'""", "timeout = 60")
    assert logged() == ["x:A: ready", "x:A: its timeout has passed, so Redbike ends its command", "x:A: bye"]


@pytest.mark.acceptance
def test_a_grandchild_has_its_grace_when_the_command_is_gone(work, tmp_path):
    grandchild = """trap "sleep 0.3; echo bye > said; exit" TERM; echo ready; sleep 300 & wait"""
    with over_when_ready(), pytest.raises(Overrun):
        work(f"sh -c '({grandchild}) & wait'", "timeout = 60\ncwd = .")
    assert (tmp_path / "said").read_text() == "bye\n"


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("line", "grace"),
    [
        # A command that ignores SIGTERM.
        ("""sh -c 'trap "" TERM; echo up > lifeline; echo ready; exec sleep 300 > lifeline'""", 0.2),
        # Only the grandchild ignores it, without an open pipe.
        (
            """sh -c '(trap "" TERM; echo up; echo ready >&3; exec sleep 300 3>&-) 3>&1 > lifeline 2>&1 & """
            """exec > /dev/null 2>&1; wait'""",
            0.2,
        ),
        # It prints without end.
        ("""sh -c 'trap "" TERM; exec 3> lifeline; echo up >&3; yes'""", 0.2),
    ],
)
def test_an_overrun_ends_the_whole_group(work, lifeline, line, grace):
    with over_when_ready(), pytest.raises(Overrun):
        work(line, "timeout = 60\ncwd = .", grace=grace)
    lifeline.assert_cut()


@contextmanager
def hearing(hear):
    """A function hears of each line of log."""
    redbike.commands.worker.log.addFilter(hear)
    try:
        yield
    finally:
        redbike.commands.worker.log.removeFilter(hear)


@pytest.mark.parametrize(
    ("error", "trap"), [(KeyboardInterrupt(), 'trap "" TERM;'), (SystemExit(1), ""), (ValueError("x"), "")], ids=repr
)
def test_an_interrupted_run_ends_its_group(work, lifeline, logged, error, trap):
    left = [error]
    with hearing(lambda record: raising(left.pop())() if left else True), pytest.raises(type(error)):
        work(f"sh -c '{trap} (echo up; echo go >&2; exec sleep 300) > lifeline & wait'", "cwd = .", grace=0.3)
    lifeline.assert_cut()


def test_a_second_interruption_kills_at_once(work, lifeline, monkeypatch):
    interrupted = raising(KeyboardInterrupt())
    monkeypatch.setattr(redbike.commands.output.Output, "read_until_exit", lambda *_: lifeline.wait() and interrupted())
    monkeypatch.setattr(redbike.commands.output.Output, "read", interrupted)
    monkeypatch.setattr(redbike.commands.output.Output, "_drain", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        work("""sh -c 'trap "" TERM; (echo up; exec sleep 300) > lifeline'""", "cwd = .")
    lifeline.assert_cut()


@pytest.mark.parametrize(
    ("sections", "seconds"),
    [
        ("", 1e9),
        ("[a]\ntimeout = 15m\n[b]\ncwd = .", 1e9),
        ("[a]\ntimeout = 2.5\n[b]\ntimeout = 1d2h3m4s", 93789.0),
        ("[a]\ntimeout = 2.5\n[b]\ntimeout = 1.5h", 5405.0),
        ("[a]\ntimeout = 0.5\n[b]\ntimeout = 0.2", 5.5),
    ],
)
def test_the_deadline_leaves_time_to_end_the_longest(commands, sections, seconds):
    worker = commands(f"[commands]\na: true\nb: true\n{sections}\n")
    assert worker.timeout("work-A") == worker.timeout("work-B") == seconds


# Output


def test_each_line_of_log_has_the_job_id_and_a_long_line_is_logged_in_pieces(work, logged):
    long = "ab" * 2500
    work(f"sh -c 'echo one; echo two >&2; echo; echo {long}; printf three'", run=a_run("x:\u202eb:A"))
    pieces = [long[:2000], long[2000:4000], long[4000:]]
    assert logged() == [rf"x:\u202eb:A: {text}" for text in ("one", "two", "", *pieces, "three")]


STEERING = {
    r"\\033]0;title\\007": r"\x1b]0;title\x07",
    r"\\377\\376": r"\xff\xfe",
    r"a\\rb": r"a\rb",
    r"crlf\\r": "crlf",
    r"\\342\\200\\256": r"\u202e",
    r"\\302\\233": r"\x9b",
    r"\\000": r"\x00",
    r"tab\\tgr\\303\\274n": "tab\tgrün",
    "%%s %%d": "%s %d",
}


def test_output_cannot_steer_a_terminal(work, logged):
    printed = r"\\n".join([*STEERING, ""])
    work(f'printf "{printed}"')
    assert logged() == [f"x:A: {text}" for text in STEERING.values()]


@pytest.mark.parametrize(
    "script",
    [
        "print('x' * 15_000_000, end='')",
        "print('\\\\n' * 15_000_000, end='')",
        "print('\\\\33' * 15_000_000, end='')",
        "print('€' * 5_000_000)",
    ],
)
def test_a_flood_costs_bounded_memory_and_log(work, logged, script):
    tracemalloc.start()
    try:
        assert work(f'{PYTHON} -X utf8 -c "{script}"') is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    lines = logged()
    assert peak < 10_000_000
    assert sum(len(line) for line in lines) < LOG_LIMIT
    assert len(lines) < LOG_LIMIT / 50
    assert lines[-1].startswith("x:A: … ")
    assert lines[-1].endswith(" bytes more were left out")


def test_what_is_left_out_is_counted(work, logged):
    script = "for i in range(100_000): print(i)"
    work(f'{PYTHON} -c "{script}"')
    *lines, note = [line.removeprefix("x:A: ") for line in logged()]
    assert lines == [str(i) for i in range(len(lines))]
    assert sum(len(line) + 1 for line in lines) + int(note.split()[1]) == sum(len(str(i)) + 1 for i in range(100_000))


def test_a_line_in_drops_costs_little(work, logged):
    script = "import os; [os.write(1, b'x') for _ in range(70_000)]"
    began = time.process_time()
    work(f'{PYTHON} -c "{script}"')
    assert time.process_time() - began < 5.0 * SLOWNESS
    assert "left out" in logged()[-1]


def test_output_shows_while_the_command_runs(work, tmp_path, caplog):
    caplog.set_level(logging.INFO, "redbike.commands")
    fifo = tmp_path / "go"
    os.mkfifo(fifo)

    def go(record):
        if record.getMessage() == "x:A: one":
            threading.Thread(target=fifo.write_text, args=("go",)).start()
        return True

    with hearing(go):
        assert work("sh -c 'echo one; read line < go; echo two'", "cwd = .") is None


def test_a_process_left_behind_may_print_later(work, tmp_path, logged):
    limits = tmp_path / "limits"
    os.mkfifo(limits)
    line = f"sh -c '(read line < {limits}; echo late; /bin/echo \"$line\"; echo done > {tmp_path}/done) & echo first'"
    assert work(line) is None
    limits.write_text("later still\n")
    wait_until((tmp_path / "done").exists)
    wait_until(lambda: logged() == ["x:A: first", "x:A: late", "x:A: later still"])


def test_a_pipe_that_never_runs_dry_does_not_hold_the_worker():
    with subprocess.Popen("true") as process, open("/dev/zero", "rb") as endless:
        process.stdout = endless
        with redbike.commands.output.Output(process, "x:A"):
            pass
        assert endless.closed


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_the_exit_of_a_command_that_has_closed_its_output_is_noticed(work, monkeypatch, has_pidfd):
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    looks, poll = [], Child.poll
    monkeypatch.setattr(Child, "poll", lambda child: looks.append(child) or poll(child))
    assert work("sh -c 'exec > /dev/null 2>&1; sleep 0.2; exit 75'") == 60.0
    assert work("sh -c 'sleep 5 & exit 75'", "timeout = 20") == 60.0
    for line in ("sh -c 'exec > /dev/null 2>&1; sleep 300'", "sleep 300"):
        with pytest.raises(Overrun):
            work(line, "timeout = 0.5")
    assert len(looks) < 1000, "it waits, and does not look again and again"


def test_no_file_stays_open(work):
    work("true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(2):
        work("echo one")
        with pytest.raises(Overrun):
            work("sleep 300", "timeout = 0.05")
        with pytest.raises(CommandFailed):
            work("/no/such/program")
    # Something that an earlier test has left may have been closed meanwhile.
    assert len(os.listdir("/dev/fd")) <= before


def test_many_run_at_once(commands, as_run, logged):
    worker = commands("[commands]\nx: sh -c 'echo $REDBIKE_JOBID; sleep 0.2; echo $REDBIKE_JOBID'\n")
    ids = [f"x:{i}:A" for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(worker.work, ids)) == [None] * 8
    assert sorted(logged()) == sorted(f"{jobid}: {jobid}" for jobid in ids * 2)


# The file

BAD_KEYS = [
    ("Timeout", "3", "'Timeout'"),
    ("env", "3", "'3'"),
    ("env", "clean", "'clean'"),
    ("shell", "yes", "'yes'"),
    *((f"env.{name}", "3", f"'env.{name}'") for name in ("", "A B", "1")),
    *((f"env.{name}", "3", f"'env.{name}' cannot be set here: Redbike sets it for each job") for name in OF_RUN),
    ("env.A", "a\0b", r"a\x00b"),
    ("cwd", "a\0b", r"a\x00b"),
    *(
        (key, value, repr(value))
        for key in ("timeout", "backoff")
        for value in ("", "abc", "-1", "nan", "1e3", "5m1h", "1 h", "٣", "9" * 20, "999999d")
    ),
    *(("timeout", value, repr(value)) for value in ("0", "0s")),
    *((key, "never", "'never'") for key in ("on-error", "on-timeout", "retries")),
    ("on-error", "requeue", "'requeue'"),
    ("on-timeout", "", "''"),
    *(("retries", value, repr(value)) for value in ("-1", "1000001")),
    *(("success", text, f"bad success '{text}'") for text in ("", "x", "256", "5-3", "-1", "1-", "0x1", "1 2 a")),
    *(("signal", text, f"bad signal '{text}'") for text in ("", "STOP", "9", "RTMIN", "SIG")),
    *(("grace", text, f"bad grace '{text}'") for text in ("", "-1", "soon")),
    ("env-file", "", "bad env-file ''"),
]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "[commands]"),
        ("x: echo", ".ini: line 1 is neither a [section] nor a 'key: value' in one: 'x: echo"),
        ("[backup]\ntimeout = 3", "[commands]"),
        ("[DEFAULT]\nx: echo", "[commands]"),
        ("[Commands]\nx: echo", "[commands]"),
        ("[commands]\nx", "'x"),
        ("[commands]\n: echo", ": echo"),
        ("[commands]\nx\ny", ".ini: the lines 2, 3 are neither a [section] nor a 'key: value' in one: 'x"),
        ("[commands]\nx: echo\nx: echo", ".ini: line 3: 'x' is there already in the section 'commands'"),
        ("[commands]\nx: echo\n[x]\n[x]\n", ".ini: line 4: the section 'x' is there already"),
        ("[commands]\nx:", "it names no program"),
        ("[commands]\nx: ''", "names no program"),
        ("[commands]\nx: echo 'a", "a quotation mark is not closed"),
        ("[commands]\nx: echo \\", "nothing follows its last backslash"),
        ("[commands]\nx: echo a\0b", r"a\x00b"),
        ("[commands]\nx: echo\n[y]", "'y'"),
        ("[commands]\nx: echo\n[ x ]", "' x '"),
        ("[commands]\nx: echo\n[DEFAULT]\ntimeout = 3", "'DEFAULT'"),
        ("[commands]\nx: echo\n[X]\ntimeout = 3", "'X'"),
        ("[commands]\nx: a\n[x]\nshell =\n", "bad shell ''"),
        ("[commands]\nx:\n[x]\nshell = /bin/sh\n", "bad command line"),
        *((f"[commands]\nx: a\n[x]\njson.input = {text}\n", "bad json.input") for text in ("one", "1", "[[[[")),
        ('[commands]\nx: a\n[x]\ninput = a\njson.input = "b"\n', "'input' is given twice"),
        ('[commands]\nx: a\n[x]\njson.no = ""\n', "'no'"),
        ("[commands]\nx: a\n*: b\n", "[*]"),
        ("[commands]\nx: a\n[*]\nno = 1\n", "'no'"),
        ("[commands]\nx: a\n[x]\ntimout = 1\n", "unknown key 'timout'; is 'timeout' meant?"),
        *((f"[commands]\nx: a\n[x]\n{key} = {value}", quoted) for key, value, quoted in BAD_KEYS),
    ],
)
def test_a_bad_file_is_refused_in_one_line(commands, text, quoted):
    worker = commands(text)
    with pytest.raises(BadConfig) as caught:
        worker.timeout("work-A")
    assert quoted in str(caught.value)
    assert "commands.ini" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.ini", ".", "utf16.ini", "latin.ini", "nul\0.ini", ""])
def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("utf16.ini").write_text("[commands]\nx: echo\n", encoding="utf-16")
    Path("latin.ini").write_bytes(b"[commands]\nx: echo \xfc\n")
    worker = Commands("A", name)
    with pytest.raises(BadConfig) as caught:
        worker.timeout("work-A")
    assert repr(os.path.join(os.getcwd(), name)) in str(caught.value)
    assert str(caught.value).endswith("it is not UTF-8") == (name in ("utf16.ini", "latin.ini"))
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_in_the_place_of_the_queues_is_refused():
    with pytest.raises(BadConfig, match=r"^bad queues 'jobs\.ini': the file comes second, as in Commands\('A', "):
        Commands("jobs.ini")


def test_a_byte_order_mark_and_comments_are_no_trouble(tmp_path):
    (tmp_path / "bom.ini").write_bytes(b"\xef\xbb\xbf# one\r\n[commands]\r\n; two\r\nx: echo\r\n")
    assert redbike.commands.file.read_commands(str(tmp_path / "bom.ini"))["x"].argv == (b"echo",)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["[", "]", "commands", "x", ":", "=", "\n", " ", "'", "\\", "env.", "timeout", "\0"])))
def test_any_file_is_read_or_refused_in_one_line(commands, parts):
    try:
        said = list(commands("[commands]\n" + "".join(parts))._commands)
    except BadConfig as error:
        said = [str(error)]
    assert not [text for text in said if "\n" in text]


def test_the_example_works(as_run, logged):
    worker = Commands("A", str(EXAMPLE))
    assert worker.work("hello:A") is None
    assert logged() == ["hello:A: Hello from hello:A, due at 1000000000"]
    assert worker.work("disk:A") is None
    assert len(logged()) > 2
