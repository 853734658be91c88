"""The fixtures. pytest imports this: it loads no more until a test asks for one."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from redbike.facade import override

if TYPE_CHECKING:
    from redbike.testing.fixture import MakeRedbike


# The programs that the tests import come after this.
override.prepare()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Let each further Redbike connect when it is made: the tests are imported."""
    override.stop_waiting()


@pytest.fixture(scope="session")
def _redbike_server() -> None:
    """Start the server of this process: an embedded one, or find the one that REDBIKE_TEST_URL names."""
    from redbike.errors import RedbikeError
    from redbike.testing.fixture import find_server

    try:
        find_server(os.getpid())
    except RedbikeError as error:
        # A traceback would show the URL, which may have a password in it.
        pytest.fail(f"no server for the tests: {error}", pytrace=False)


@pytest.fixture
def redbike(_redbike_server: None) -> "Iterator[MakeRedbike]":
    """Makes a `Redbike` for this test: ``redbike(worker)``. Its jobs are those of this test alone."""
    from redbike.testing.fixture import isolate

    with isolate() as maker:
        yield maker
