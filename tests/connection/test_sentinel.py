"""Real Sentinels: Redbike follows the master that they name, whoever of them dies."""

import pytest

from redbike import Redbike
from redbike.errors import ServerError
from tests.commandline import Shell
from tests.connection.test_impostors import impostor
from tests.servers import Sentinels, free_ports
from tests.verbs import Quiet

pytestmark = pytest.mark.acceptance


@pytest.fixture
def sentinels(tmp_path):
    """Servers and Sentinels with passwords of their own."""
    sentinels = Sentinels(tmp_path / "servers", password="secret", sentinel_password="watchword")
    yield sentinels
    sentinels.stop()


def test_work_goes_on_with_one_sentinel_left(sentinels):
    """Also if something else answers at the place of one. test_failover.py tests that it goes on at another master."""
    for sentinel in sentinels.sentinels[:2]:
        sentinel.kill()
    with impostor(*free_ports(1)) as place:
        bike = Redbike(Quiet(), redis_config=sentinels.url.replace("127.", f"{place},127.", 1))
        assert bike.set("job:A", "NOW")
        assert bike.work_one() == "job:A"


def test_what_the_servers_refuse_is_one_line_without_a_password(sentinels, tmp_path):
    for old, new, said in [
        (":secret@", ":wrong@", "refuses the login"),
        ("watchword", "wrong", "sentinel_password"),
        ("/service", "/elsewhere", "no Sentinel names a master of 'elsewhere': .*: it does not know this service"),
        ("?sentinel_password=watchword", "", "sentinel_password"),
    ]:
        url = sentinels.url.replace(old, new)
        assert url != sentinels.url
        with pytest.raises(ServerError, match=said):
            Redbike(Quiet(), redis_config=url)
        done = Shell(tmp_path, url).run("set", "job:A", "NOW")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), url
        for password in ("secret", "watchword", "wrong"):
            assert password not in done.stderr


def test_one_that_refuses_the_question_does_not_keep_the_others_from_answering(sentinels):
    first, *others = sentinels.sentinels
    first.client.execute_command("ACL", "SETUSER", "default", "-sentinel")
    assert Redbike(Quiet(), redis_config=sentinels.url).set("job:A", "NOW")
    for each in others:
        each.kill()
    with pytest.raises(ServerError, match=f"127.0.0.1:{first.port}: .*permission") as caught:
        Redbike(Quiet(), redis_config=sentinels.url)
    assert all(f"127.0.0.1:{each.port}: Error" in str(caught.value) for each in others)
