"""TLS, from the command line to a server behind it, with certificates of an authority that the tests make.

The embedded server speaks no TLS. So something in front of it does, as is usual for such servers; and where there is
a redis-server that speaks it itself, as Debian's does, that one is tried as well.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import threading

import pytest

from tests.commandline import Shell
from tests.servers import TLS_PROGRAMS, make_certificates
from tests.waiting import wait_until

WORKER = """
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        print(f"worked {jobid}", flush=True)
"""


class Terminator:
    """Hands what comes in on a port of its own to a Unix socket; with `context` it ends TLS."""

    def __init__(self, path, context=None):
        self._path = path
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context))
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self):
        self._loop.call_soon_threadsafe(self._server.close)
        self._do(self._server.wait_closed())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    async def _serve(self, reader, writer):
        from_server, to_server = await asyncio.open_unix_connection(self._path)
        ways = [self._copy(reader, to_server), self._copy(from_server, writer)]
        await asyncio.wait(map(asyncio.ensure_future, ways), return_when=asyncio.FIRST_COMPLETED)
        to_server.close()
        writer.close()

    @staticmethod
    async def _copy(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()


class Native:
    """A server that speaks TLS itself."""

    def __init__(self, program, folder, ask_clients):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        settings = {
            "port": "0",
            "tls-port": str(self.port),
            "tls-cert-file": f"{folder}/server.pem",
            "tls-key-file": f"{folder}/server.key",
            "tls-ca-cert-file": f"{folder}/ca.pem",
            "tls-auth-clients": "yes" if ask_clients else "no",
            "bind": "127.0.0.1",
            "dir": str(folder),
            "save": "",
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
        wait_until(self._listens)

    def close(self):
        self._process.terminate()
        self._process.wait()

    def _listens(self):
        assert self._process.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an authority, a certificate of it for localhost, one for a client, and another authority."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder, server=["localhost"], client=["worker.example"])
    return folder


def context(folder, ask_clients=False):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    if ask_clients:
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


# One that speaks it itself, if there is one, is enough for the second tier.
FIRST, *OTHERS = [*TLS_PROGRAMS, "terminator"]


@pytest.fixture(
    params=[
        pytest.param(FIRST, marks=pytest.mark.acceptance),
        *(pytest.param(other, marks=pytest.mark.nightly) for other in OTHERS),
    ]
)
def serve(request, server, client, folder):
    """Starts something that speaks TLS on localhost; gives its port."""
    started = []

    def start(ask_clients=False):
        if request.param == "terminator":
            started.append(Terminator(str(server.socket), context(folder, ask_clients)))
        else:
            started.append(Native(request.param, folder, ask_clients))
        return started[-1].port

    yield start
    for each in started:
        each.close()


@pytest.fixture
def plain(server, client):
    """A port without TLS."""
    terminator = Terminator(str(server.socket))
    yield terminator.port
    terminator.close()


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


def is_refused(shell, *words):
    done = shell.run("set", "job:A", "NOW")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("redbike: cannot reach Redis at localhost:")
    for word in words:
        assert word in done.stderr


def test_jobs_are_set_dispatched_and_worked(serve, folder, shell_of):
    a_job_is_worked(shell_of(f"rediss://localhost:{serve()}/0?ssl_ca_certs={folder}/ca.pem"))


def test_the_config_file_says_it_in_single_settings(serve, folder, shell_of):
    shell = shell_of()
    settings = f"host: localhost\nport: {serve()}\nssl: yes\nssl_ca_certs: {folder}/ca.pem\n"
    (shell.folder / ".redbike.conf").write_text(f"[redbike-redis]\n{settings}")
    a_job_is_worked(shell)


def test_a_client_shows_its_certificate(serve, folder, shell_of):
    url = f"rediss://localhost:{serve(ask_clients=True)}/0?ssl_ca_certs={folder}/ca.pem"
    is_refused(shell_of(url))
    a_job_is_worked(shell_of(f"{url}&ssl_certfile={folder}/client.pem&ssl_keyfile={folder}/client.key"))


def test_a_server_of_another_authority_is_refused(serve, folder, shell_of):
    port = serve()
    is_refused(shell_of(f"rediss://localhost:{port}/0?ssl_ca_certs={folder}/other.pem"), "certificate verify failed")
    # Without one it is the system's authorities that count.
    is_refused(shell_of(f"rediss://localhost:{port}/0"), "certificate verify failed")


def test_a_certificate_for_another_host_is_refused(serve, folder, shell_of):
    done = shell_of(f"rediss://127.0.0.1:{serve()}/0?ssl_ca_certs={folder}/ca.pem").run("set", "job:A", "NOW")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "certificate is not valid for '127.0.0.1'" in done.stderr


def test_a_port_that_speaks_it_is_not_for_those_who_do_not(serve, shell_of):
    is_refused(shell_of(f"redis://localhost:{serve()}/0"), "rediss://")


@pytest.mark.acceptance
def test_a_port_that_does_not_speak_it_is_not_for_those_who_do(plain, folder, shell_of):
    is_refused(shell_of(f"rediss://localhost:{plain}/0?ssl_ca_certs={folder}/ca.pem"))
