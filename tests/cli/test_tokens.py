"""The command token: its secret is shown once and kept nowhere, and what is wrong is refused in one line."""

import json

import pytest

from redbike.cli import tokens as command
from redbike.config.file import Config
from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.errors import Unreachable
from redbike.store.sharded.steering import catch_up
from redbike.store.tokens import find_token, make_digest
from tests.cli.refused import check_refused
from tests.shards import divide


def list_tokens(shell):
    return json.loads(shell.run("token", "list", "--format=json").stdout)


def test_a_token_is_shown_once_and_kept_as_a_hash(shell, client):
    done = shell.run("token", "add", "ci", "--role=operate", "--jobs=etl*", "--jobs=x:?", "--expires=90d")
    [secret] = done.stdout.splitlines()
    said = done.stderr.splitlines()
    assert said[0].startswith("redbike: '90d' is ")
    assert "store this token, as it is shown only now" in said[1]
    kept = client.hgetall("redbike-tokens")
    assert secret.encode() not in b"".join([*kept, *kept.values()])
    assert make_digest(secret).encode() in kept[b"ci"]
    [token] = list_tokens(shell)
    assert (token["name"], token["role"], token["jobs"]) == ("ci", "operate", ["etl*", "x:?"])
    assert token["expires"] - token["since"] == pytest.approx(90 * 86400, abs=60)
    assert secret not in json.dumps(token)
    log = json.loads(shell.run("log", "--format=json").stdout)
    assert [(entry["action"], entry["detail"]) for entry in log] == [("token", "add ci: operate, jobs etl* x:?")]
    assert shell.run("token", "remove", "ci").returncode == 0
    assert list_tokens(shell) == []
    assert shell.run("token", "add", "ci", "--role=read").stdout != done.stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("add", "a b", "--role=read"), 2, "bad name 'a b'"),
        (("add", "ci", "--role=admin"), 2, "bad role 'admin': read, operate, write are allowed"),
        (("add", "ci", "--role=read", "--jobs=[a"), 2, "bad pattern '[a'"),
        (("add", "ci", "--role=read", "--expires=2001-01-01T00:00:00Z"), 2, "bad --expires '2001-01-01"),
        (("add", "taken", "--role=read"), 2, "bad name 'taken': a token has this name already"),
        (("remove", "ci"), 1, "no such token: 'ci'"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(shell, client, words, status, said):
    shell.run("token", "add", "taken", "--role=write")
    before = client.hgetall("redbike-tokens")
    check_refused(shell.run("token", *words), status, said)
    assert client.hgetall("redbike-tokens") == before


def test_a_token_is_valid_until_the_instant_at_which_it_expires(shell, bike):
    secret = shell.run("token", "add", "ci", "--role=read", "--expires=4000000000").stdout.strip()
    [token] = bike.store.tokens.read_all()[0]
    assert [find_token([token], secret, now) for now in (3999999999.0, 4000000000.0)] == [token, None]


def test_a_token_that_is_damaged_lets_nobody_in(client, bike):
    for damaged in (b"{}", b"[", b'{"role": "god", "jobs": [], "expires": null, "since": 1, "digest": ""}'):
        client.hset("redbike-tokens", "ci", damaged)
        assert bike.store.tokens.read_all()[0] == []


def test_a_token_of_which_not_all_shards_have_heard_is_shown(client, prefix, own_server, monkeypatch, capsys):
    with connect(own_server.url) as other:
        store = divide(prefix, client, other)
        monkeypatch.setattr(command, "_open_store", lambda config: store)
        given = {"list": False, "remove": False, "<NAME>": "ci", "--role": "read", "--jobs": [], "--expires": None}
        own_server.stop()
        with pytest.raises(Unreachable, match="has not heard of it"):
            command.control_tokens(given, Config(Settings(), None))
        [secret] = capsys.readouterr().out.splitlines()
        own_server.start()
        assert catch_up(store.shards)
        for shard in store.shards:
            assert find_token(shard.tokens.read_all()[0], secret, 0.0).name == "ci"
