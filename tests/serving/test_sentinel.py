"""Real Sentinels: Redbike follows the master that they name, whoever of them dies."""

import threading

import pytest

from redbike import Redbike, Unreachable
from redbike.errors import ServerError
from tests.commandline import Shell
from tests.servers import Sentinels
from tests.verbs import Quiet
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance


@pytest.fixture
def sentinels(tmp_path):
    """Servers and Sentinels with passwords of their own."""
    sentinels = Sentinels(tmp_path / "servers", password="secret", sentinel_password="watchword")
    yield sentinels
    sentinels.stop()


def is_set(bike: Redbike, jobid: str) -> bool:
    try:
        return bike.set(jobid, "NOW")
    except Unreachable:
        return False


def test_work_goes_on_at_the_new_master_and_with_one_sentinel_left(sentinels):
    bike = Redbike(Quiet(), redis_config=sentinels.url)
    worker = threading.Thread(target=bike.work)
    worker.start()
    for number in range(2):
        wait_until(sentinels.is_well, 20)
        old = sentinels.master()
        assert bike.set(f"{number}:A", "NOW")
        wait_until(lambda jobid=f"{number}:A": jobid in bike.worker.worked)
        old.kill()
        wait_until(lambda number=number: is_set(bike, f"after {number}:A"), 20)
        wait_until(lambda jobid=f"after {number}:A": jobid in bike.worker.worked)
        wait_until(lambda old=old: sentinels.master() is not old)
        old.start()
    wait_until(sentinels.is_well, 20)
    for sentinel in sentinels.sentinels[:2]:
        sentinel.kill()
    # A new process asks the one that is left.
    other = Redbike(Quiet(), redis_config=sentinels.url)
    assert other.set("later:A", "NOW")
    wait_until(lambda: "later:A" in bike.worker.worked)
    bike.control("HALT")
    worker.join()
    assert all(well for _, well in bike.repair())
    assert list(bike.fsck()) == []


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
