"""``output`` of a command: the end of the output of each of its runs, which is kept in Redis."""

import pytest

from redbike import BadConfig, NoResult, Redbike
from redbike.store.journal import Journal
from redbike.store.keys import Keys
from redbike.store.outputs import Outputs
from redbike.worker.live import Tap
from tests.cli.refused import check_refused
from tests.commands.conftest import over_when_ready, read_when_there
from tests.loops import make_worker
from tests.pages import find_block, run_line
from tests.verbs import Quiet, set_job, take_one
from tests.waiting import SLOWNESS, wait_until


@pytest.fixture
def keeps(works):
    """What is kept of the output of x:A when it has run once, by a shell."""
    return lambda line, options="output = 1000": works(line, f"shell = /bin/sh\n{options}", "NOW").output


def test_the_end_of_the_output_of_the_last_run_is_kept_until_unset(keeps, client, prefix, store):
    assert keeps("echo one", "") is None
    assert not client.exists(Keys(prefix).outputs)
    assert keeps("echo one; echo two >&2") == "one\ntwo"
    assert keeps("echo three; exit 3") == "three"
    with over_when_ready():
        assert keeps("echo four; sleep 300", "output = 9\ntimeout = 60") == "four"
    assert keeps("true") == ""
    assert keeps("echo 123456789", "output = 5") == "6789"
    assert keeps("yes 123456789 | head -n 2000", "output = 10000") == "\n".join(["123456789"] * 1000)
    assert keeps("printf 'a\\033[2J\\377b'") == "a\\x1b[2J\\xffb", "it is safe to show"
    keeps("echo one")
    assert client.hkeys(Keys(prefix).outputs) == [b"x:A"]
    store.jobs.unset("x:A")
    assert not client.exists(Keys(prefix).outputs)


# Each run that is kept


@pytest.fixture
def run(client, prefix, commands):
    """Works x:A once, by a shell with a `line`; `options` of its job, `section` of the command. Returns the program."""

    def running(line, section="output = 1000", settings=None, **options):
        handler = commands(f"[commands]\nx = {line}\n[x]\nshell = /bin/sh\n{section}\n")
        bike = Redbike(handler, prefix, client, **(settings or {}))
        bike.set("x:A", "NOW", **options)
        assert bike.work_one() == "x:A"
        return bike

    return running


@pytest.mark.parametrize(("part", "name"), [(Journal, "list_runs"), (Outputs, "_read_all")])
def test_a_run_that_ends_while_it_is_read_has_its_output(run, monkeypatch, part, name):
    bike, read = run("echo one"), getattr(part, name)

    def read_later(*given):
        monkeypatch.undo()
        run("echo two")
        return read(*given)

    monkeypatch.setattr(part, name, read_later)
    assert bike.output("x:A") in ("one", "two")


def test_each_run_that_is_kept_has_its_own(run, client):
    run("echo one")
    run("echo two; exit 3", "output = 1k")
    run("echo three")
    run("echo no", "")
    bike = run("printf ''", "output = 5")
    assert [bike.output("x:A", number) for number in (1, 3)] == ["", "three"]
    assert (bike.output("x:A", 4), bike.output("x:A", run=5), bike.output("x:A", failed=True)) == ("two", "one", "two")
    no_process = "it had no process, its worker was lost, or its job has no option output"
    for number, failed, said in [
        (2, False, f"no output of that run of 'x:A' is kept: {no_process}"),
        (6, False, "no output of 'x:A': it keeps only 5 of its runs"),
        (2, True, "no output of 'x:A': it keeps only 1 of its failed runs"),
    ]:
        with pytest.raises(NoResult, match=f"^{said}$"):
            bike.output("x:A", number, failed)
    for number in (0, -1, True, "1", 1.5):
        with pytest.raises(BadConfig, match=r"^bad run "):
            bike.output("x:A", number)


def test_the_option_comes_before_the_key_and_that_before_the_setting(run):
    line, five = "printf 123456789", {"output": 5}
    for section, settings, options, kept in [
        ("", five, {}, "56789"),
        ("output = 3", five, {}, "789"),
        ("output = 3", five, {"output": "2"}, "89"),
        ("output = 3", five, {"output": "off"}, None),
        ("output = off", five, {"output": None}, None),
        ("output = 1m", None, {}, "123456789"),
    ]:
        bike = run(line, section, settings, **options)
        if kept is not None:
            assert bike.output("x:A") == kept
            continue
        with pytest.raises(NoResult):
            bike.output("x:A")


def test_what_was_printed_is_kept_if_the_timeout_of_the_job_is_over_before_the_command(run, tmp_path):
    said = tmp_path / "said"
    line = "trap 'sleep 0.3; exit 1' TERM; echo one; sleep 300 & wait"
    bike = run(line, f"output = 9\non-failure = cat > {said}.new; mv {said}.new {said}", timeout=SLOWNESS)
    [failure] = bike.failures()
    assert (failure["error"], failure["output"]) == (f"overran its timeout of {SLOWNESS:g} s", "one")
    assert bike.output("x:A") == "one"
    assert read_when_there(said) == "one\n"


def test_nothing_is_kept_of_a_run_without_the_option_whose_timeout_is_over(store):
    set_job(store, "x:A", "NOW", "now")
    run = take_one(store, [("work-A", 0.01)], "tag")
    run.tap = Tap("x:A")
    run.tap.feed(b"one", b"one")
    wait_until(lambda: run.now() > run.deadline)
    make_worker(store, Quiet()).ends.end_overrun(run)
    assert not store.client.exists(store.keys.running, store.keys.outputs)


def test_as_many_are_kept_as_runs_and_a_mebibyte_of_a_job(run, client):
    for number in range(4):
        bike = run(f"echo {number}", history=3)
    assert client.hget(bike.store.keys.outputs, "x:A").count(b"\x1e") == 3
    bike = run("echo last", history=1)
    assert client.hget(bike.store.keys.outputs, "x:A").count(b"\x1e") == 1
    for _ in range(4):
        bike = run("head -c 300000 /dev/zero | tr '\\\\0' x", "output = 300000", history=200)
    kept = client.hget(bike.store.keys.outputs, "x:A")
    assert kept.count(b"\x1e") == 3
    assert len(kept) < 2**20
    bike = run("echo none", history=0)
    with pytest.raises(NoResult):
        bike.output("x:A")


def test_the_command_prints_it(run, shell, prefix):
    run("echo one; echo two; exit 1", "output = 16k")
    run("echo three", "output = 16k")
    shell.environment["REDBIKE_PREFIX"] = prefix
    assert shell.run("output", "x:A").stdout == "three\n"
    assert shell.run("show", "x:A").stdout.count("Last output\n  three\n") == 1
    assert shell.run("output", "x:A", "--failed").stdout == shell.run("output", "x:A", "--run=2").stdout == "one\ntwo\n"
    for words, code, said in [
        (("x:A", "--run=3"), 1, "no output of 'x:A': it keeps only 2 of its runs"),
        (("none:A",), 1, "no such job: 'none:A'"),
        (("x:A", "--run=0"), 2, "bad --run '0': 1 to 1000 are allowed"),
    ]:
        check_refused(shell.run("output", *words), code, said)


def test_the_lines_of_the_page_print_what_it_says(jobs):
    bike = jobs.bike
    script = "backup = sh -c 'echo one; test -e ran && echo two; test -e ran || { touch ran; exit 1; }'\n"
    (jobs.folder / "commands.ini").write_text(f"[commands]\n{script}[*]\noutput = 16k\ncwd = .\n")
    jobs.start("work")
    for number in (1, 2):
        bike.set("backup:A", "NOW")
        wait_until(lambda number=number: len(bike.runs("backup:A")) == number)
    lines = [line.partition(" #")[0] for line in find_block("commands", "redbike output backup:A ").splitlines()]
    assert [run_line(jobs, line).stdout for line in lines] == ["one\ntwo\n", "one\n", "one\n", "one\ntwo\n"]
