"""TLS with a Cluster and with Sentinels, by servers that speak it themselves."""

import pytest

from redbike import Redbike
from redbike.errors import ServerError
from tests.servers import TLS_PROGRAMS, Cluster, Sentinels, make_certificates
from tests.verbs import Quiet

PLAIN = {"redis+clusters": "redis+cluster", "rediss+sentinel": "redis+sentinel"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder, server=["127.0.0.1"])
    return folder


PARAMS = [(kind, program) for program in TLS_PROGRAMS for kind in (Cluster, Sentinels)]
FIRST = len(PARAMS[:2])  # of one program; the others are for the third tier
MARKS = [pytest.mark.acceptance] * FIRST + [pytest.mark.nightly] * (len(PARAMS) - FIRST)


@pytest.fixture(scope="module", params=[pytest.param(p, marks=m) for p, m in zip(PARAMS, MARKS, strict=True)])
def servers(request, tmp_path_factory, certificates):
    kind, program = request.param
    folder = tmp_path_factory.mktemp("servers")
    servers = kind(folder / "all", certificates=certificates, program=program, password="hunter2")
    yield servers
    servers.stop()


def test_a_job_is_set_and_worked(servers):
    bike = Redbike(Quiet("A"), redis_config=servers.url)
    assert bike.set("job:A", "NOW")
    assert bike.work_one() == "job:A"
    assert list(bike.fsck()) == []
    bike.redis.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ca.pem", "other.pem", "certificate verify failed"),
        ("127.0.0.1", "localhost", "certificate is not valid for 'localhost'"),
        (":hunter2@", ":wrong@", "refuses the login"),
    ],
)
def test_what_is_wrong_is_one_line(servers, old, new, said):
    assert old in servers.url
    is_refused(servers.url.replace(old, new), said)


def test_who_speaks_no_tls_is_told_how_to(servers):
    scheme, _, rest = servers.url.partition("://")
    is_refused(f"{PLAIN[scheme]}://{rest.partition('?')[0]}", f"the url begins with {scheme.replace('+', '.')}://")


def is_refused(url, said):
    with pytest.raises(ServerError, match=said) as caught:
        Redbike(Quiet("A"), redis_config=url)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
