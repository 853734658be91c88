"""The fixture of the plugin, on the suite's own server. The plugin itself is tried in processes of its own."""

import pytest

from redbike.testing.fixture import MakeRedbike, Served


@pytest.fixture
def redbike(client, server_url):
    maker = MakeRedbike(Served(server_url, client))
    yield maker
    maker.close()
