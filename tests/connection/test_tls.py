"""TLS with a server, a Cluster and Sentinels, by certificates of an authority that the tests make."""

import json
import shutil
import ssl

import pytest
import redis

from redbike import Redbike
from redbike.connection import tls
from redbike.connection.client import connect
from redbike.errors import ServerError
from tests.commandline import Shell, make_module
from tests.servers import TLS_PROGRAMS, Cluster, Node, Sentinels, free_ports, make_certificates
from tests.verbs import Quiet
from tests.waiting import wait_until

WORKER = make_module("print('worked', jobid, flush=True)")
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
    assert [loop.wait(timeout=60) for loop in loops] == [0, 0]
    assert "Traceback" not in shell.log()


def is_refused(shell, words=""):
    done = shell.run("set", "job:A", "NOW")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("redbike: cannot reach Redis at ")
    assert words in line


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


@pytest.fixture
def made(monkeypatch):
    """What each reading of certificates has made; but for those that are replaced, it is to be read once."""
    monkeypatch.setattr(tls, "FRESH", 1e9)
    contexts, make = [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: contexts.append(make()) or contexts[-1])
    return contexts


def test_certificates_are_read_once_and_again_when_a_file_is_replaced(server, folder, tmp_path, made):
    trusted = tmp_path / "ca.pem"
    shutil.copy(folder / "ca.pem", trusted)
    with connect(f"rediss://127.0.0.1:{server.port}/0?ssl_ca_certs={trusted}") as client:
        for _ in range(3):
            assert client.ping()
            client.connection_pool.disconnect()
        assert len(made) == 1
        shutil.copy(folder / "other.pem", trusted)
        for _ in range(2):
            with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
                client.ping()
        assert len(made) == 2
        shutil.copy(folder / "ca.pem", trusted)
        assert client.ping()


@pytest.mark.acceptance
def test_a_port_that_does_not_speak_it_is_not_for_those_who_do(node, folder, shell_of):
    is_refused(shell_of(f"rediss://127.0.0.1:{node.port}/0?ssl_ca_certs={folder}/ca.pem"))


# A Cluster, and Sentinels

PLAIN = {"redis+clusters": "redis+cluster", "rediss+sentinel": "redis+sentinel"}
PARAMS = [(kind, program) for program in TLS_PROGRAMS for kind in (Cluster, Sentinels)]
FIRST = len(PARAMS[:2])  # of one program; the others are for the third tier
MARKS = [pytest.mark.acceptance] * FIRST + [pytest.mark.nightly] * (len(PARAMS) - FIRST)


@pytest.fixture(scope="module", params=[pytest.param(p, marks=m) for p, m in zip(PARAMS, MARKS, strict=True)])
def servers(request, tmp_path_factory, folder):
    kind, program = request.param
    servers = kind(tmp_path_factory.mktemp("servers") / "all", certificates=folder, program=program, password="hunter2")
    yield servers
    servers.stop()


def test_a_job_is_set_and_worked(servers):
    bike = Redbike(Quiet("A"), redis_config=servers.url)
    assert bike.set("job:A", "NOW")
    assert bike.work_one() == "job:A"
    assert list(bike.fsck()) == []
    bike.redis.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ca.pem", "other.pem", "certificate verify failed"),
        ("127.0.0.1", "localhost", "certificate is not valid for 'localhost'"),
        (":hunter2@", ":wrong@", "refuses the login"),
    ],
)
def test_what_is_wrong_is_one_line(servers, old, new, said):
    assert old in servers.url
    is_refused_by(servers.url.replace(old, new), said)


def test_who_speaks_no_tls_is_told_how_to(servers):
    scheme, _, rest = servers.url.partition("://")
    is_refused_by(f"{PLAIN[scheme]}://{rest.partition('?')[0]}", f"the url begins with {scheme.replace('+', '.')}://")


def is_refused_by(url, said):
    with pytest.raises(ServerError, match=said) as caught:
        Redbike(Quiet("A"), redis_config=url)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
