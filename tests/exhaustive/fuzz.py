"""Feed mutated texts to the parser for a while, and hold each to what is promised of every text.

usage: python -m tests.exhaustive.fuzz [--seconds=<N>] [--seed=<N>]

A text is parsed and asked for some next runs, or refused with `BadSchedule` and nothing else; what is stored means the
same instants again; all of that takes less than 50 ms of the processor. It stops at the first text that breaks this,
and prints it. Needs ``pip install atheris``.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["redbike"]):
    from redbike.errors import BadSchedule
    from redbike.schedule.parser import parse

CASES = Path(__file__).parent.parent / "cases"
LIMIT = 0.05  # seconds
WORDS = """
    DTSTART DTSTART;TZID= :19970902T090000 RRULE: EXRULE: RDATE: EXDATE: RDATE;VALUE=PERIOD: FREQ= YEARLY MONTHLY WEEKLY
    DAILY HOURLY MINUTELY SECONDLY ;INTERVAL= ;COUNT= ;UNTIL= ;WKST= ;BYSETPOS= ;BYMONTH= ;BYWEEKNO= ;BYYEARDAY=
    ;BYMONTHDAY= ;BYDAY= ;BYHOUR= ;BYMINUTE= ;BYSECOND= MO TU WE TH FR SA SU -1 366 9999999999 Europe/Berlin CRON_TZ=
    EVERY: AT: @ @daily 15m */ # L W H( mon-sun jan-dec 2099 20260329T023000 99991231T235959Z
"""


class Broken(Exception):
    """A text that breaks a promise."""


def cost(text: str) -> float:
    """Seconds of the processor that a text takes from an interpreter without instruments, the better of two."""
    program = (
        "import sys, time; from redbike.schedule.parser import parse; from redbike.errors import BadSchedule\n"
        "def once(text):\n"
        "    parse.__globals__['_parse'].cache_clear(); began = time.process_time()\n"
        "    try: parse(text, 'America/New_York', 'job', 1.7e9).next(1.8e9)\n"
        "    except BadSchedule: pass\n"
        "    return time.process_time() - began\n"
        "text = sys.stdin.read(); print(min(once(text) for _ in range(2)))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=text, check=True, capture_output=True, text=True)
    return float(done.stdout)


def check(data: bytes) -> None:
    """Raises what is wrong about a text."""
    text = data.decode("utf-8", "ignore")
    began = time.process_time()
    try:
        schedule = parse(text, "America/New_York", "job", 1.7e9)
    except BadSchedule as refused:
        if len(str(refused)) > 400 or not str(refused).isprintable():
            raise Broken(f"{text!r} is refused by {str(refused)!r}") from None
    else:
        again, due = parse(schedule.text, "Asia/Tokyo", "other", 3e8), 1.8e9
        for _ in range(3):
            found = schedule.next(due)
            if found != again.next(due):
                raise Broken(f"{text!r} is stored as {schedule.text!r}, which is not the same")
            if found is None:
                break
            if found <= due:
                raise Broken(f"{text!r}: {found} is not after {due}")
            due = found
    if time.process_time() - began > LIMIT:
        taken = cost(text)
        if taken > LIMIT:
            raise Broken(f"{text!r} takes {taken} s")


def main() -> None:
    """Runs until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "words"
        words.write_text("".join(f'"{word}"\n' for word in WORDS.split()))
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        lines = [line for path in sorted(CASES.glob("*.txt")) for line in path.read_text().splitlines()]
        for number, line in enumerate(line for line in lines if line[:1] not in ("", " ", "#")):
            (corpus / str(number)).write_text(line)
        options = [f"-dict={words}", f"-seed={given.seed}", f"-max_total_time={given.seconds}", "-max_len=8300"]
        options += [f"-artifact_prefix={folder}/"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
