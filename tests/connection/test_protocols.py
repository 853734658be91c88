"""RESP2 and RESP3 have other shapes for the same replies; every operation comes to the same with both."""

import pytest

from redbike.connection.client import connect
from tests.operations import OPERATIONS
from tests.test_crashes import compare, short, told  # noqa: F401

pytestmark = pytest.mark.acceptance

# Without an option it is protocol 3, with the replies of old.
OPTIONS = ["protocol=2", "protocol=3&legacy_responses=no"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation(client, prefix, server_url, short, monkeypatch, operation):  # noqa: F811
    for name, value in operation.patches.items():
        monkeypatch.setattr(name, value)
    expected = told(client, prefix, operation)
    for options in OPTIONS:
        with connect(f"{server_url}?{options}") as other:
            compare(told(other, f"{prefix}{options[9]}{len(options)}", operation), expected, operation)
