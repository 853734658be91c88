"""Messages are sent to a command, or to a URL; what goes wrong is told without any secret."""

import json
import sys
from pathlib import Path

import pytest

from redbike import BadConfig
from redbike.config.alert_targets import read_target
from redbike.loop.alerts import sender
from redbike.loop.alerts.sender import Sender, format_alert
from redbike.store.enums import Alert
from tests.waiting import wait_until

LINES = [
    format_alert(Alert.FAILED, "é:A has failed", 2.5, 1.0, "é:A"),
    format_alert(Alert.LATE, "b:A was to end", 3.0, 1.0, "b:A"),
]


def test_a_line_has_what_the_contract_says():
    assert json.loads(LINES[0]) == {
        "alert": "failed", "jobid": "é:A", "due": 1.0, "since": 2.5, "text": "é:A has failed"
    }  # fmt: skip
    assert json.loads(format_alert(Alert.NO_DISPATCHER, "x", 1.0)).keys() == {"alert", "due", "since", "text"}


def test_a_command_gets_the_lines_and_the_words_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("REDBIKE_URL", "redis://:hunter2@host")
    monkeypatch.setenv("REDBIKE_ALERT", "slack+https://secret")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tell").write_text(
        '#!/bin/sh\n{ echo "$REDBIKE_ALERT $REDBIKE_PREFIX $1 [$REDBIKE_URL]"; cat; } >told\n'
    )
    (tmp_path / "tell").chmod(0o755)
    assert Sender("./tell 'a $HOME; b'", "app").send(LINES) == (True, "exit status 0")
    first, *rest = (tmp_path / "told").read_text().splitlines()
    assert (first, rest) == ("failed,late app a $HOME; b []", LINES)


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("sh -c 'echo hello; echo no luck >&2; exit 3'", "exit status 3: no luck"),
        ("false", "exit status 1"),
        ("/missing/program secret", "No such file or directory"),
        ("/dev/null", "Permission denied"),
        ("sh -c 'kill -9 $$'", "exit status -9"),
    ],
)
def test_a_command_that_fails(command, how):
    assert Sender(command, "app").send(LINES) == (False, how)


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "TIMEOUT", 0.5)
    monkeypatch.setattr(sender, "GRACE", 0.1)
    code = "import os, signal, time; signal.signal(15, lambda *_: 0); os.fork(); print(os.getpid(), flush=True); "
    sent = Sender(f'{sys.executable} -c "{code}time.sleep(999)"', "app").send(LINES)
    assert (sent.is_sent, sent.how.partition(":")[0]) == (False, "not done after 0.5 s")
    pid = int(sent.how.rpartition(" ")[2])
    place = Path(f"/proc/{pid}/stat")
    wait_until(lambda: not place.exists() or place.read_text().split()[2] == "Z")


def test_a_url_gets_the_lines(pinged):
    assert Sender(f"{pinged.url}/secret", "app").send(LINES) == (True, "the answer is 200")
    assert Sender(f"{pinged.url}/secret", "app").send(LINES[:1]).is_sent
    many, one = pinged.posted
    assert (many[0], many[1].decode().splitlines()) == ("application/x-ndjson", LINES)
    assert (one[0], json.loads(one[1])) == ("application/json", json.loads(LINES[0]))
    assert pinged.called == ["/secret"] * 2


def test_slack_gets_the_texts(pinged):
    assert Sender(f"slack+{pinged.url}/secret", "app").send(LINES * 30).is_sent
    [(kind, body)] = pinged.posted
    [(key, text)] = json.loads(body).items()
    assert (kind, key) == ("application/json", "text")
    assert text.splitlines()[::40] == ["app: é:A has failed", "and 20 more"]


def test_slack_takes_no_text_for_a_link_or_a_call_of_people(pinged):
    lines = [format_alert(Alert.FAILED, 'a:A has failed: "x" & <!channel> <https://evil|docs>', 2.5)]
    assert Sender(f"slack+{pinged.url}/secret", "<app>").send(lines).is_sent
    said = 'a:A has failed: "x" &amp; &lt;!channel&gt; &lt;https://evil|docs&gt;'
    assert json.loads(pinged.posted[0][1]) == {"text": f"&lt;app&gt;: {said}"}
    assert Sender(f"{pinged.url}/secret", "app").send(lines).is_sent
    assert pinged.posted[1][1].decode() == f"{lines[0]}\n"


@pytest.mark.parametrize("line", ["x", "[]", "5", "{}"])
def test_a_damaged_line_is_sent_as_it_is(pinged, line):
    assert Sender("true", "app").send([line]).is_sent
    assert Sender(f"slack+{pinged.url}/x", "app").send([line]).is_sent


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (500, "the answer is 500"),
        (404, "the answer is 404"),
        ("file:///etc/passwd", "the answer is 302"),
        ("/there", "the answer is 302"),
    ],
)
def test_a_url_that_refuses_or_leads_elsewhere(pinged, answer, how):
    pinged.answers = [answer]
    sent = Sender(f"{pinged.url}/secret", "app").send(LINES)
    assert (sent.is_sent, "secret" in sent.how, sent.how) == (False, False, how)
    assert pinged.called == ["/secret"]


def test_a_service_that_does_not_answer_is_given_up(pinged, monkeypatch):
    monkeypatch.setattr(sender, "TIMEOUT", 0.2)
    pinged.hanging.clear()
    assert Sender(f"{pinged.url}/x", "app").send(LINES) == (False, "no answer within 0.2 s")
    assert not Sender("http://127.0.0.1:1/x", "app").send(LINES).is_sent


@pytest.mark.parametrize(
    "value",
    [
        " ", "'", "a 'b secret", "''", "a\0b", 7, b"mail", "ftp://host/x", "https://", "https:///secret", "slack+ftp://h",
        "https://user:secret@host/x", "https://ho st/x", f"https://host/{'secret' * 400}", "http://h:0/x",
    ],
)  # fmt: skip
def test_what_is_neither_a_command_nor_a_url_is_refused(value):
    with pytest.raises(BadConfig) as refused:
        read_target(value)
    text = str(refused.value)
    assert text.startswith("bad alert ")
    assert "secret" not in text
    assert len(text.splitlines()) == 1


def test_of_a_target_only_the_program_or_the_host_is_shown():
    assert read_target("mail -s secret").name == "'mail'"
    assert read_target("slack+https://hooks.slack.com/services/secret").name == "https://hooks.slack.com/…"
