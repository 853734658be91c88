"""The standard streams of a process."""

import os
import socket
import subprocess
import sys

CODE = """
from redbike.processes import streams
streams.prepare()
with streams.buffer_output():
    for n in range(3000):
        print(n)
print("afterwards")
print("at once")
"""


def test_many_rows_are_one_write_also_if_standard_output_is_unbuffered():
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader:
        with writer:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            child = subprocess.Popen([sys.executable, "-c", CODE], stdout=writer, env=environment)
        writes = list(iter(lambda: reader.recv(100_000).decode(), ""))
        assert child.wait() == 0
    rows = writes[:-4]
    assert "".join(rows) == "".join(f"{n}\n" for n in range(3000))
    assert len(rows) < 30
    # What comes after them is unbuffered again.
    assert writes[-4:] == ["afterwards", "\n", "at once", "\n"]


def test_the_descriptor_of_a_stream_that_a_program_has_set_stays_open(tmp_path):
    script = (
        "import gc, os, sys\n"
        "from redbike.processes import streams\n"
        f"sys.stdout = open({str(tmp_path / 'output')!r}, 'w')\n"
        "streams.prepare()\n"
        "gc.collect()\n"
        f"other = os.open({str(tmp_path / 'other')!r}, os.O_CREAT | os.O_WRONLY)\n"
        "print('said', flush=True)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "output").read_text() == "said\n"
    assert (tmp_path / "other").read_text() == ""
