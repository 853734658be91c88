"""One of several masters refuses the user, or has an expired certificate: it stops its shards alone."""

from contextlib import suppress

import pytest

from redbike import Redbike, RoundRobin, ServerError, Unreachable
from tests.commandline import Shell, make_module
from tests.servers import TLS_PROGRAMS, Cluster, make_certificates
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = make_module("with open('done', 'a') as file: print(jobid, file=file)")
NAMES = [f"job-{number}:A" for number in range(24)]
CONFIG = "[redbike]\nworker: jobs:Worker('A')\nprefix: app\nshards: 4\n[redbike-redis]\nurl: {}\n"


def let_in(node, password="word"):
    """Let the user in by this password alone."""
    rights = {"keys": ["*"], "channels": ["*"], "categories": ["+@all"]}
    node.client.acl_setuser("guest", enabled=True, reset_passwords=True, passwords=[f"+{password}"], **rights)


def shut_out(node):
    """Forget the user: the server closes its connections."""
    node.client.acl_deluser("guest")


class Site:
    """A cluster, the command line on it, and jobs of which some are on one master, and the others are not."""

    def __init__(self, folder, url, masters):
        self.url, self.masters, folder = url, masters, folder / "folder"
        folder.mkdir()
        (folder / "jobs.py").write_text(WORKER)
        (folder / ".redbike.conf").write_text(CONFIG.format(url))
        (folder / "done").write_text("")
        self.shell = Shell(folder, None)
        with self.open() as bike:
            self.first = masters.master_of(f"{bike.store.shards[0].keys.prefix}-jobs")
            places = {name: masters.master_of(f"{bike.store.find_shard(name).keys.prefix}-jobs") for name in NAMES}
        self.near = [name for name, node in places.items() if node is not self.first]
        self.far = [name for name, node in places.items() if node is self.first]
        assert self.near
        assert self.far

    def open(self):
        return Redbike(RoundRobin("A"), "app", self.url, shards=4)

    def begin(self):
        for command in ("dispatch", "work"):
            self.shell.start(command, log=command)

    def check_that_others_run(self, said):
        """The jobs of the others run, and each process says that it waits for the first master, and why."""
        with self.open() as bike:
            for name in self.near:
                bike.set(name, "NOW")
            with pytest.raises(Unreachable, match=said):
                bike.set(self.far[0], "NOW")
        wait_until(lambda: set(self.near) <= self.read_done())
        for command in ("dispatch", "work"):
            wait_until(lambda command=command: said in self.shell.log(command))

    def check_that_all_run(self):
        with self.open() as bike:
            wait_until(lambda: self.try_to_set(bike))
        wait_until(lambda: set(NAMES) == self.read_done())
        assert [process.poll() for process in self.shell.started] == [None, None]

    def try_to_set(self, bike):
        with suppress(Unreachable):
            return [bike.set(name, "NOW") for name in self.far]

    def count_refusals(self, command):
        return self.shell.log(command).count("Redis refuses the login: ")

    def read_done(self):
        return set((self.shell.folder / "done").read_text().split())


@pytest.fixture
def site(tmp_path):
    cluster = Cluster(tmp_path / "cluster", masters=2, replicas=0)
    for node in cluster.nodes:
        let_in(node)
    site = Site(tmp_path, cluster.url.replace("://", "://guest:word@"), cluster)
    yield site
    site.shell.close()
    cluster.stop()


def test_a_master_that_does_not_know_the_user_stops_its_shards_until_it_does(site):
    site.begin()
    with site.open() as bike:
        wait_until(lambda: len(bike.workers()) == 2)
    shut_out(site.first)
    site.check_that_others_run(f"Redis refuses the login: 127.0.0.1:{site.first.port}: invalid username-password pair")
    let_in(site.first)
    site.check_that_all_run()
    before = {command: site.count_refusals(command) for command in ("dispatch", "work")}
    for node in site.masters.nodes:
        shut_out(node)
    for command in ("dispatch", "work"):
        wait_until(lambda command=command: site.count_refusals(command) > before[command])
    # Nobody starts where no master lets the user in.
    with pytest.raises(ServerError, match="refuses the login") as found:
        site.open()
    assert not isinstance(found.value, Unreachable)
    for node in site.masters.nodes:
        let_in(node)
    (site.shell.folder / "done").write_text("")
    with site.open() as bike:
        for name in NAMES:
            bike.set(name, "NOW")
    site.check_that_all_run()


def test_processes_start_beside_a_master_with_another_password(site):
    let_in(site.first, "other")
    site.begin()
    site.check_that_others_run(f"Redis refuses the login: 127.0.0.1:{site.first.port}: invalid username-password pair")
    let_in(site.first)
    site.check_that_all_run()


@pytest.mark.parametrize("program", TLS_PROGRAMS[:1])
def test_processes_start_beside_a_master_whose_certificate_has_expired(tmp_path, program):
    folder = tmp_path / "certificates"
    folder.mkdir()
    make_certificates(folder, server=["127.0.0.1"], expired=["127.0.0.1"])
    cluster = Cluster(tmp_path / "cluster", masters=2, replicas=0, certificates=folder, program=program)
    site = Site(tmp_path, cluster.url, cluster)
    try:
        show_certificate(site.first, folder, "expired")
        site.begin()
        site.check_that_others_run("certificate has expired")
        show_certificate(site.first, folder, "server")
        site.check_that_all_run()
    finally:
        site.shell.close()
        cluster.stop()


def show_certificate(node, folder, name):
    """Show new connections this certificate."""
    node.client.execute_command(
        *("CONFIG", "SET", "tls-cert-file", str(folder / f"{name}.pem"), "tls-key-file", str(folder / f"{name}.key"))
    )
