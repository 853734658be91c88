"""A program and the command line look at the same server and the same prefix, with the same settings."""

import asyncio

import pytest

from redbike import AsyncRedbike, Redbike, RoundRobin
from redbike.config.file import examine, find_unread
from redbike.config.settings import Settings
from redbike.errors import BadConfig
from redbike.facade.arguments import _warn_of_unread
from tests.commandline import drop_waits

WORKER = """
from redbike import RoundRobin

class Worker(RoundRobin):
    def queue_for(self, jobid):
        return "mine"
    def queue_names(self):
        return ["mine"]
    def work(self, jobid):
        pass
"""


@pytest.fixture
def here(shell, monkeypatch):
    """The folder and the environment of the command line are those of this process."""
    monkeypatch.chdir(shell.folder)
    monkeypatch.syspath_prepend(shell.folder)
    monkeypatch.delenv("REDBIKE_URL", raising=False)

    def set_variables(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
            shell.environment[name] = value

    return set_variables


def see(shell, bike):
    """Whether the command line sees what a program sets."""
    with bike:
        assert bike.set("seen:A", "AT:4102444800")
        return "seen:A" in shell.run("schedules").stdout and not (shell.folder / ".redbike").exists()


@pytest.mark.parametrize(("name", "variables"), [("REDBIKE_URL", {}), ("REDIS_URL", {"REDBIKE_PREFIX": "other"})])
def test_the_environment_names_the_server_and_the_prefix_for_both(shell, here, server_url, name, variables):
    url = shell.environment.pop("REDBIKE_URL")
    here(**{"REDBIKE_URL": "", name: url}, **variables)
    assert see(shell, Redbike(RoundRobin("A")))
    assert see(shell, Redbike.from_config(worker=RoundRobin("A")))

    async def look():
        async with AsyncRedbike(RoundRobin("A")) as bike:
            return (await bike.tell("seen:A"))["schedule"]

    assert asyncio.run(look()) == "AT:4102444800"


@pytest.mark.parametrize("path", [None, "conf/my.conf"])
def test_a_program_reads_the_config_of_the_command_line(shell, here, path):
    url = shell.environment.pop("REDBIKE_URL")
    file = shell.folder / (path or ".redbike.conf")
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"[redbike]\nprefix: mine\nworker: jobs:Worker('A')\nretries: 7\n[redbike-redis]\nurl: {url}\n")
    (shell.folder / "jobs.py").write_text(WORKER)
    config = ["--config", path] if path else []
    assert shell.run(*config, "set", "a:A", "NOW").returncode == 0
    with Redbike.from_config(path) as bike:
        assert (bike.prefix, bike.settings.retries) == ("mine", 7)
        assert [(job.jobid, job.queue) for job in bike.jobs()] == [("a:A", "mine")]
        assert bike.work_one() == "a:A"

    async def look():
        async with AsyncRedbike.from_config(path) as bike:
            return [job.jobid async for job in bike.jobs()]

    assert asyncio.run(look()) == ["a:A"]


def test_without_a_worker_a_program_sets_and_looks_but_works_nothing(shell, here):
    here(REDBIKE_URL=shell.environment["REDBIKE_URL"])
    with Redbike.from_config() as bike:
        assert bike.set("a:A", "NOW")
        assert [job.queue for job in bike.jobs()] == ["work-A"]
        bike.dispatch_due()
        for work in (bike.work, bike.work_one):
            with pytest.raises(BadConfig, match="no worker: the config names none"):
                work()
        assert bike.tell("a:A")["status"].startswith("ENQ:")


def test_a_bad_setting_in_the_environment_is_one_line(shell):
    shell.environment["REDBIKE_RETRIES"] = "many"
    done = shell.run("set", "a:A", "NOW")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'many'" in done.stderr
    assert "'many'" in shell.run("check").stdout


def test_a_misspelt_setting_in_the_environment_is_a_warning(shell, here, caplog):
    here(REDBIKE_RETRYS="hunter2", REDBIKE_URL=shell.environment["REDBIKE_URL"])
    said = "the variable 'REDBIKE_RETRYS' is ignored; is 'REDBIKE_RETRIES' meant?"
    assert shell.run("set", "a:A", "NOW").stderr == f"redbike: {said}\n"
    checked = shell.run("check")
    assert (checked.returncode, checked.stdout.splitlines()[0]) == (1, f"problem: {said}")
    with Redbike.from_config():
        assert caplog.messages == [said]
    with Redbike(RoundRobin("A")):
        assert caplog.messages == [said], "it reads none but those of the server and the prefix"


@pytest.mark.parametrize("give", [lambda url: Redbike(RoundRobin("A"), url), lambda url: Settings(prefix=url)])
def test_a_prefix_that_is_a_url_is_refused(here, give):
    with pytest.raises(BadConfig, match=r"bad prefix 'redis://…': it is the URL of a server") as caught:
        give("redis://:secret@host/1")
    assert "secret" not in str(caught.value)


def test_whoever_starts_a_server_says_so_and_how_to_stop_it_whatever_the_config_names(shell, here, caplog):
    del shell.environment["REDBIKE_URL"]
    (shell.folder / ".redbike.conf").write_text("[redbike-redis]\nurl: redis://127.0.0.1:1\n")
    _warn_of_unread.cache_clear()
    with Redbike(RoundRobin("A")):
        unread, said = drop_waits(caplog.messages)
        assert unread == "'.redbike.conf' names another server: Redbike() does not read it, Redbike.from_config() does"
        assert said == "started a server in '.redbike'; redbike --url=embedded: server stop ends it"
        with Redbike(RoundRobin("A")):
            assert len(drop_waits(caplog.messages)) == 2, "it runs already"
    refused = shell.run("server", "stop")
    assert (refused.returncode, "--url=embedded: names the one in '.redbike'" in refused.stderr) == (2, True)
    assert shell.run(*said.partition("; redbike ")[2].split()[:3]).stdout == "stopped\n"


@pytest.mark.parametrize(
    ("config", "variables", "unread"),
    [
        ("", {}, []),
        ("[redbike]\nprefix: redbike\nretries: 5\n", {}, []),
        ("[redbike]\nprefix: mine\n", {}, ["prefix"]),
        ("[redbike]\nprefix: mine\n", {"REDBIKE_PREFIX": "other"}, []),
        ("[redbike]\nprefix: mine\n[redbike-redis]\nhost: host\n", {}, ["server", "prefix"]),
        ("[redbike-redis]\nurl: redis://host\n", {"REDIS_URL": "redis://other"}, []),
        ("[redbike-redis]\nurl: redis://host\n", {"REDBIKE_URL": "embedded:other"}, []),
        *((f"[redbike-redis]\nurl: embedded:{own}\n", {}, []) for own in ("", ".redbike", "./.redbike/")),
        ("[redbike-redis]\nurl: embedded:other\n", {}, ["server"]),
        ("[redbike]\nprefx: mine\n", {}, []),
        ("[redbike-redis]\nurl: embedded:a\0b\n", {}, []),
    ],
)
def test_what_only_the_config_file_names_is_found(tmp_path, monkeypatch, config, variables, unread):
    monkeypatch.chdir(tmp_path)
    assert find_unread(variables) == []
    (tmp_path / ".redbike.conf").write_text(config)
    assert find_unread(variables) == unread


def test_a_program_with_a_prefix_of_its_own_is_not_warned_of_the_prefix(here, caplog, shell, server_url):
    (shell.folder / ".redbike.conf").write_text(f"[redbike]\nprefix: mine\n[redbike-redis]\nurl: {server_url}\n")
    here(REDBIKE_URL=server_url)
    _warn_of_unread.cache_clear()
    Redbike(RoundRobin("A"), prefix="own").close()
    Redbike(RoundRobin("A"), redis_config=server_url).close()
    assert caplog.messages == []
    Redbike(RoundRobin("A")).close()
    assert caplog.messages == [
        "'.redbike.conf' names another prefix: Redbike() does not read it, Redbike.from_config() does"
    ]


def test_check_says_of_an_empty_url_what_commands_say(here):
    assert examine(None, {}, url="").problems == ("bad --url '': the URL of a server is needed",)


@pytest.mark.parametrize("kind", [Redbike, AsyncRedbike])
@pytest.mark.parametrize("path", [RoundRobin("A"), RoundRobin, b"my.conf", 7])
def test_what_is_no_name_of_a_config_file_is_refused(kind, path):
    with pytest.raises(BadConfig, match=r"bad path, which is a \w+: the name of a config file is needed; a worker is"):
        kind.from_config(path)
