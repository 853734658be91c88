"""A real HTTP server that is pinged: it notes what is called, and answers as a test tells it to."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Pinged:
    """What was called, in order. The next calls get `answers`: a status, or a place to go to; after that 200."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.posted: list[tuple[str, bytes]] = []  # of each POST the kind and what came with it
        self.answers: list[int | str] = []
        self.hanging = threading.Event()  # while it is clear, no call is answered
        self.hanging.set()
        self.url = ""

    def answer(self) -> int | str:
        self.hanging.wait()
        return self.answers.pop(0) if self.answers else 200


@contextmanager
def serve() -> Iterator[Pinged]:
    pinged = Pinged()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers["Content-Encoding"] == "gzip"
            pinged.posted.append((self.headers["Content-Type"], gzip.decompress(body) if is_packed else body))
            self.do_GET()

        def do_GET(self) -> None:
            pinged.called.append(self.path)
            answer = pinged.answer()
            self.send_response(302 if isinstance(answer, str) else answer)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, *_: object) -> None:
            # A caller that did not wait for its answer.
            pass

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    pinged.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield pinged
    finally:
        pinged.hanging.set()
        server.shutdown()
        thread.join()
        server.server_close()
