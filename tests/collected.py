"""A real HTTP server that collects what is posted, as Sentry and a collector of OpenTelemetry do."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collected:
    """What was posted to `url`: the path and the body of each request."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, bytes]] = []
        self.url = ""


@contextmanager
def collect() -> Iterator[Collected]:
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers["Content-Encoding"] == "gzip"
            collected.posted.append((self.path, gzip.decompress(body) if is_packed else body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        collected.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield collected
        finally:
            server.shutdown()
            thread.join()
