"""What the log says of a run is said in rounded numbers."""

import logging

from redbike import Again, Redbike, RoundRobin


class Asking(RoundRobin):
    def work(self, jobid):
        raise Again(after=0.06399518689694159)


def test_a_job_that_asks_to_run_again_is_told_with_a_short_number(client, server_url, prefix, caplog):
    caplog.set_level(logging.INFO, "redbike")
    with Redbike(Asking("A"), prefix=prefix, redis_config=server_url) as bike:
        bike.set("a:A", "NOW")
        assert bike.work_one()
    assert "a:A: it runs again in 0.064 s, as it asked" in caplog.messages
