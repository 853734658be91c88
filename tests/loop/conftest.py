"""What tests of what is sent to a URL begin with."""

import pytest

from tests.pinged import serve


@pytest.fixture
def pinged():
    """A server that notes what it is asked for."""
    with serve() as pinged:
        yield pinged
