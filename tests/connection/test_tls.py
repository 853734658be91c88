"""TLS, from the command line to a server that speaks it, with certificates of an authority that the tests make."""

import json

import pytest

from tests.commandline import Shell
from tests.servers import TLS_PROGRAMS, Node, free_ports, make_certificates
from tests.waiting import wait_until

WORKER = """
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        print(f"worked {jobid}", flush=True)
"""
# One is enough for the second tier.
TIERS = [pytest.mark.acceptance, *[pytest.mark.nightly] * len(TLS_PROGRAMS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an authority, a certificate of it for the server, one for a client, and another authority."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder, server=["127.0.0.1"], client=["worker.example"])
    return folder


@pytest.fixture(params=[pytest.param(program, marks=mark) for program, mark in zip(TLS_PROGRAMS, TIERS, strict=False)])
def server(request, tmp_path, folder):
    """A server that speaks nothing but TLS."""
    server = Node(tmp_path / "server", *free_ports(1), certificates=folder, program=request.param)
    yield server
    server.kill()
    server.client.close()


@pytest.fixture
def shell_of(tmp_path):
    """The command line, on a server of this URL."""
    (tmp_path / "jobs.py").write_text(WORKER)
    shells = []

    def make(url=None):
        shells.append(Shell(tmp_path, url))
        return shells[-1]

    yield make
    for shell in shells:
        shell.close()


def a_job_is_worked(shell):
    loops = [shell.start("dispatch"), shell.start("work", "jobs:Worker('A')")]
    assert shell.run("set", "job:A", "EVERY:0.2s").returncode == 0
    wait_until(lambda: shell.log().count("worked job:A") >= 2)
    assert json.loads(shell.run("tell", "job:A").stdout)["schedule"].startswith("EVERY:0.2s@")
    assert shell.run("control", "HALT").returncode == 0
    assert [loop.wait(timeout=10) for loop in loops] == [0, 0]
    assert "Traceback" not in shell.log()


def is_refused(shell, words=""):
    done = shell.run("set", "job:A", "NOW")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("redbike: cannot reach Redis at ")
    assert words in line


def test_jobs_are_set_dispatched_and_worked(server, folder, shell_of):
    a_job_is_worked(shell_of(f"rediss://127.0.0.1:{server.port}/0?ssl_ca_certs={folder}/ca.pem"))


def test_the_config_file_says_it_in_single_settings(server, folder, shell_of):
    shell = shell_of()
    settings = f"host: 127.0.0.1\nport: {server.port}\nssl: yes\nssl_ca_certs: {folder}/ca.pem\n"
    (shell.folder / ".redbike.conf").write_text(f"[redbike-redis]\n{settings}")
    a_job_is_worked(shell)


def test_a_client_shows_its_certificate(server, folder, shell_of):
    server.client.config_set("tls-auth-clients", "yes")
    url = f"rediss://127.0.0.1:{server.port}/0?ssl_ca_certs={folder}/ca.pem"
    is_refused(shell_of(url))
    a_job_is_worked(shell_of(f"{url}&ssl_certfile={folder}/client.pem&ssl_keyfile={folder}/client.key"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rediss://127.0.0.1:{}/0?ssl_ca_certs={}/other.pem", "certificate verify failed"),
        # Without one it is the system's authorities that count.
        ("rediss://127.0.0.1:{}/0", "certificate verify failed"),
        ("rediss://localhost:{}/0?ssl_ca_certs={}/ca.pem", "certificate is not valid for 'localhost'"),
        ("redis://127.0.0.1:{}/0", "rediss://"),
    ],
)
def test_what_does_not_fit_the_server_is_refused(server, folder, shell_of, url, said):
    is_refused(shell_of(url.format(server.port, folder)), said)


@pytest.mark.acceptance
def test_a_port_that_does_not_speak_it_is_not_for_those_who_do(tmp_path, folder, shell_of):
    plain = Node(tmp_path / "server", *free_ports(1))
    is_refused(shell_of(f"rediss://127.0.0.1:{plain.port}/0?ssl_ca_certs={folder}/ca.pem"))
    plain.kill()
    plain.client.close()
