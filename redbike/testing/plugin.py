"""The fixtures for pytest. pytest always imports this module, so it loads the rest only when a test uses a fixture."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from redbike.facade import override

if TYPE_CHECKING:
    from redbike.testing.fixture import MakeRedbike


# Before pytest imports the tests, and with them the programs that they test.
override.prepare()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Let each further Redbike connect when it is made, because pytest has now imported the tests."""
    override.stop_waiting()


@pytest.fixture(scope="session")
def _redbike_server() -> None:
    """Find the server that REDBIKE_TEST_URL names, or start an embedded one for this process."""
    from redbike.errors import RedbikeError
    from redbike.testing.fixture import find_server

    try:
        find_server(os.getpid())
    except RedbikeError as error:
        # A traceback would show the URL, which may have a password in it.
        pytest.fail(f"no server for the tests: {error}", pytrace=False)


@pytest.fixture
def redbike(_redbike_server: None) -> "Iterator[MakeRedbike]":
    """Makes a `Redbike` for this test: ``redbike(worker)``. No other test shares its jobs."""
    from redbike.testing.fixture import isolate

    with isolate() as maker:
        yield maker
