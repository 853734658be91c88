"""RESP, the protocol of Redis, as far as the proxy has to know it: where a request and a reply begin and end."""


def frame_end(data: bytes, at: int = 0) -> int:
    """Where the request or reply that begins at `at` ends; -1 if that is not in `data` yet."""
    pending = 1
    while pending:
        line = data.find(b"\r\n", at)
        if line < 0:
            return -1
        kind, number = data[at : at + 1], data[at + 1 : line]
        at, pending = line + 2, pending - 1
        if kind in b"$=!":
            at += int(number) + 2 if number != b"-1" else 0
        elif kind in b"*~>":
            pending += max(0, int(number))
        elif kind in b"%|":
            # Attributes stand before what they belong to.
            pending += 2 * int(number) + (kind == b"|")
    return at if at <= len(data) else -1


class Frames:
    """Cuts a stream into requests or replies."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Those that are complete now."""
        data, at, found = self._rest + chunk, 0, []
        while at < len(data) and (end := frame_end(data, at)) > 0:
            found.append(data[at:end])
            at = end
        self._rest = data[at:]
        return found
