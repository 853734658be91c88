"""An outlet that is closed from its own thread, as a finalizer may do it, which runs in any thread."""

import os
import threading

from redbike.process.outlet import Outlet


def test_an_outlet_may_be_closed_by_its_own_thread():
    reader, writer = os.pipe()
    errors, closed = [], threading.Event()

    class Closing(Outlet):
        def _write(self, data):
            super()._write(data)
            try:
                self.close()
            except RuntimeError as error:
                errors.append(error)
            closed.set()

    outlet = Closing(writer)
    outlet.put(b"a line")
    assert closed.wait(20)
    outlet.close()
    assert os.read(reader, 100) == b"a line\n"
    assert errors == []
    os.close(reader)
    os.close(writer)
