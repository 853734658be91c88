"""The fixtures. pytest imports this: it loads no more until a test asks for one."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from redbike.facade import override

if TYPE_CHECKING:
    from redbike.testing.fixture import MakeRedbike, Served


# The programs that the tests import come after this.
override.prepare()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Let each further Redbike connect when it is made: the tests are imported."""
    override.stop_waiting()


@pytest.fixture(scope="session")
def _redbike_server() -> "Iterator[Served]":
    """The server of this process: an embedded one, or the one that REDBIKE_TEST_URL names."""
    from redbike.errors import RedbikeError
    from redbike.testing.fixture import serve

    with ExitStack() as stack:
        try:
            served = stack.enter_context(serve())
        except RedbikeError as error:
            # A traceback would show the URL, which may have a password in it.
            pytest.fail(f"no server for the tests: {error}", pytrace=False)
        yield served


@pytest.fixture
def redbike(_redbike_server: "Served") -> "Iterator[MakeRedbike]":
    """Makes a `Redbike` for this test: ``redbike(worker)``. Its jobs are those of this test alone."""
    from redbike.testing.fixture import MakeRedbike

    maker = MakeRedbike(_redbike_server)
    try:
        yield maker
    finally:
        maker.close()
