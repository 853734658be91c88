"""Explain Redbike on one screen, or one command: what it does, its usage, its options, and examples."""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TextIO

from redbike.cli.messages import DONE
from redbike.cli.usage import Usage, split_forms

NARROWEST, WIDEST = 40, 100  # columns of text
OVERVIEW = """\
Redbike runs jobs on cron, iCal RRULE and one-off schedules, in Redis or Valkey.

Usage: redbike [--config=<CONF>] [--url=<URL>] COMMAND ...

Set up  set       Set a job: redbike set backup:A '0 3 * * *'
        load      Make the stored jobs those of a CSV file
        edit      Edit jobs in an editor, as crontab -e
        import    Take over a crontab, or a calendar
        check     Check the config, the worker class, the server and all jobs
Run     up        Run a dispatcher and workers in one foreground command
        dispatch  Move due jobs to their queues
        work      Run the jobs in the queues
Look    jobs      List all jobs: status, next run, last run
        show      Describe one job: its schedule, runs and last failure
        why       Say why a job does not run, or did not
        health    Say in one line whether all is well
        web       Show the same in a browser
Steer   run       Run jobs once now
        pause     Hold jobs, a queue, or everything; resume ends that
        cancel    Drop an occurrence that waits or runs
Keep    fsck      Check that every job is in exactly one place, or repair that

redbike help COMMAND explains one, with examples; redbike help --all lists all.
"""
EXAMPLES = """\
redbike set backup:A '0 3 * * *' --tz=Europe/Berlin  Each night at three o'clock in Berlin.
redbike set sync:A EVERY:15m --timeout=5m --on-error=retry  Every 15 minutes; retry it if it fails.
redbike set mail:B AT:2030-01-01T09:00:00Z --data='{"to": 7}'  Once, with data for its worker.
redbike set bill:A '0 6 1 * *' --tags=billing --owner='Ann, 4711' --note='Call her first'  Say who is responsible.
redbike set disk:A '0 4 * * *' --ping-url=https://hc-ping.com/UUID  Get an alert if it does not run.
redbike set post:B '0 9 * * mon-fri' --except=holidays.ics  Skip the days in a calendar.
redbike set report:B 'RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17'  On the last Friday of each month.
redbike set clean:A@all '0 4 * * *'  Run it on every host with a worker of A; clean:A@web1 runs only on web1.
redbike unset mail:B  It will not run again.
redbike unset --tag=billing --dry-run  Print which jobs it would remove.
redbike at 23:00 -- pg_dump foo --file=foo.sql  Once, tonight.
redbike at 'mon 9:00' < report.sh  Run a script on Monday.
redbike in 2h -- ./clean --all  Once, two hours from now.
redbike now -- ./reindex  In the background, as soon as a worker is free.
redbike load jobs.csv  Set each row that differs: a job id, a comma, and a schedule.
redbike load jobs.csv --prune --dry-run  Print what it would set, and what it would unset because its row is gone.
redbike schedules --full | redbike load -  Load a backup.
redbike edit 'report:*'  Edit some jobs, with their options.
redbike edit --tag=billing  Edit the jobs that have a tag.
redbike import crontab --out=jobs  Import your own crontab.
redbike import crontab --system /etc/crontab --out=system  Import one whose lines name users.
redbike import ics team.ics --out=team.csv  A job for each event, in a file that load reads.
redbike import ics - --queue=A --tz=Europe/Berlin < team.ics  All-day events begin at midnight in Berlin.
redbike dispatch  Run a dispatcher, with the worker class of the config file if it names one.
redbike work 'app:Worker("A:B")'  Class Worker in app.py takes jobs from the queues of A and B.
redbike work 'app:Worker("A:B")' --concurrency=10 --processes=2  Run up to 20 jobs at once.
redbike up 'app:Worker("A:B")' --schedules=jobs.csv  Run all that one machine needs.
redbike statuses --before=2030-01-01  List jobs whose last event was before that.
redbike schedules --full > backup.csv  Jobs, options and data, for load.
redbike schedules --tag=billing  Print the schedules of the jobs that have a tag.
redbike tell backup:A  As JSON, for programs; see show for people.
redbike next '0 3 * * mon-fri' --tz=Europe/Berlin  Try a schedule before you set it.
redbike next backup:A --count=10  The next ten runs of a job, as it is now.
redbike failures  List jobs that have failed and not succeeded since.
redbike failures --tag=billing > failures.jsonl  Save some failures with their tracebacks.
redbike failures --format=table | less  Read the table page by page.
redbike jobs --failed  List jobs whose last run failed.
redbike jobs --late  List jobs that have not begun or ended within the time of their options.
redbike jobs --tag=billing,mail  List jobs that have one of these tags.
redbike jobs --overdue --queue=A  List jobs of a queue that are due and do not run.
redbike jobs 'report:*' --format=json  List jobs by a pattern, for a program.
redbike show backup:A  Did it run, when does it run next, what went wrong?
redbike why backup:A  Why does it not run?
redbike why backup:A --at=2025-01-01T03:00:00  Why did it not run then?
redbike incident  What happened in the last 20 minutes?
redbike incident 03:05±1h  What happened around the last 03:05?
redbike health  Is all well?
redbike health --max-lag=5m 'sync:*'  Have these jobs also succeeded?
redbike alert --test  Try the setting alert.
redbike metrics  Print the metrics once.
redbike metrics --listen=9199  Serve them to Prometheus at http://127.0.0.1:9199/metrics.
redbike web  Serve the page to this machine only, at http://127.0.0.1:8080/.
redbike web --write --listen=0.0.0.0:8080  Let all who know REDBIKE_WEB_TOKEN look and make changes.
redbike token add ci --role=operate --jobs='etl*' --expires=90d  For a program that runs some jobs, for 90 days.
redbike token add anna --role=read  For a person who only looks, at the page or by its API.
redbike token list  List who may do what, and until when.
redbike token remove ci  Revoke its token.
redbike web --api --write  Also serve an API, at http://127.0.0.1:8080/api/.
redbike web --write --who-header=Remote-User --groups-header=Remote-Groups --roles=ops=operate  With Authelia as proxy.
redbike output backup:A  Print the output of its last run.
redbike output backup:A --failed --run=2  Print the output of the last run but one that went wrong.
redbike output backup:A --follow  Print its output until its run ends.
redbike runs backup:A  When it ran, how long, and how each run ended.
redbike runs --failed --since='yesterday 18:00'  All runs since then that went wrong.
redbike queues  Where jobs wait, and since when.
redbike workers  Which processes are alive, which are lost, and what each runs.
redbike shards  Which server has which shard, and does it answer?
redbike shards move --to=16  Divide the jobs among 16 shards, after redbike control HALT.
redbike agenda  The next 24 hours, and when too many jobs run at once.
redbike agenda 'report:*' --hours=168 --format=csv  When some jobs run this week, for a program.
redbike log backup:A  Who set, paused or ran it.
redbike log --since=yesterday --who=amy  What amy has changed since then.
redbike top  Live, until you press q.
redbike tail  Print all events.
redbike tail 'mail:*' --format=json  Print the events of some jobs, one JSON object a line.
redbike tail --output=backup:A  Print the events of a job, and what its command prints.
redbike tail --tag=billing  Print the events of the jobs that have a tag.
redbike tail --limit=100000 > events.csv  Save all events, even at a high rate.
redbike run backup:A  Run it now, in addition to its schedule.
redbike run --wait backup:A  Run it now, wait for the end, and exit 1 unless it succeeds.
redbike run --failed 'mail:*'  Run the jobs that have failed for good again.
redbike cancel sync:A  Drop its occurrence, whether it waits or runs.
redbike backfill load:A --from=2026-11-01 --to=2026-11-08 --dry-run  List the runs that it would begin.
redbike backfill load:A --from='mon 0:00' --to=now --at-once=4  Run them, four at a time.
redbike pause backup:A --until=2030-01-01 --reason='the disk is full'  Pause one job until then.
redbike pause --tag=billing --reason='the books are closed'  Pause all jobs that have a tag.
redbike pause --tag=billing --every='0 2 * * sat' --for=2h  Pause them each Saturday for two hours.
redbike pause --queue=B --until='mon 9:00'  Workers take no job of the queue until then.
redbike pause --queue=B --every='0 2 * * sat' --for=2h  Pause it each Saturday from two to four o'clock.
redbike resume --queue=B --every  End its blackout.
redbike resume backup:A  Let the job go on.
redbike resume --queue=B  Workers take its jobs again.
redbike limit B --at-once=5 --rate=100/m  Five at once, and 100 a minute, across all workers.
redbike limit B --rate=none  Remove a limit.
redbike check  Before a deployment, or in CI: is all ready to work?
redbike check 'app:Worker("A:B")'  Check this worker class.
redbike fsck  Print each job that is not in exactly one place.
redbike fsck --repair  Repair what is wrong.
redbike acknowledge  After a failover that lost writes: somebody has looked at the jobs.
redbike control HALT  Stop all dispatchers and workers, each after its current job.
redbike server status  Does it run, and where?
redbike server stop  Stop it; all data stays on disk.
redbike completion bash  A script for ~/.bashrc: eval "$(redbike completion bash)"
redbike completion words -- show ba  List how the last word may go on, as the scripts do.
redbike help set  Explain a command.
redbike help --all  All commands and options.
"""


def print_help(usage: Usage, words: Sequence[str], is_whole: bool) -> int:
    """Explain the command in `words`; without one, the most important, or all if `is_whole`. Raise `UsageError`."""
    print(explain(usage, usage.find_command(words)) if words else (usage.text if is_whole else OVERVIEW).strip())
    return DONE


def explain(usage: Usage, command: str) -> str:
    """Return the help for `command`, as wide as the terminal permits."""
    width = _measure(sys.stdout)
    options = [usage.get_option(name, command) for name in usage.get_options(command)]
    rows = [(option.spelling, _choose_text(command, option.text)) for option in options]
    words = _find_words(usage, " ".join([usage.lines[command], *(spelling for spelling, _ in rows)]))
    sections = [
        _fold(usage.summaries[command], width, "", ""),
        show_usage(usage, [command], sys.stdout),
        ["Options:", *_align(rows, width)] if rows else [],
        ["Words:", *_align([(word, usage.words[word]) for word in words], width)] if words else [],
        ["Examples:", *_show_examples(command, width)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _choose_text(command: str, text: str) -> str:
    """Return what an option does with `command`: its own part of `text`, if there is one, such as "With a and b: …"."""
    first, *others = re.split(r"(?:^|(?<=[.\]]) )With (?=[a-z ,]+: )", text)
    for part in others:
        commands, does = part.split(": ", 1)
        if command in re.findall(r"\w+", commands):
            return does[0].upper() + does[1:]
    return first


def show_usage(usage: Usage, commands: list[str], stream: TextIO) -> list[str]:
    """Return the lines of the usage of `commands`, as wide as `stream` permits."""
    width = _measure(stream)
    forms = (form for command in commands for form in split_forms(usage.lines[command]))
    return ["Usage:", *(line for form in forms for line in _fold(form, width, "  ", "      "))]


def _measure(stream: TextIO) -> int:
    """Return the width for text, in columns: that of the terminal, but at most `WIDEST`, which is easy to read."""
    columns = shutil.get_terminal_size((WIDEST, 24)).columns if stream.isatty() else WIDEST
    return max(NARROWEST, min(WIDEST, columns))


def _find_words(usage: Usage, text: str) -> list[str]:
    """Return the words <…> in `text` that the usage explains, and also such words in their explanations."""
    found: set[str] = set()
    while new := {word for word in re.findall(r"<(\w+)>", text) if word in usage.words} - found:
        found |= new
        text = " ".join(usage.words[word] for word in new)
    return [word for word in usage.words if word in found]


def list_examples(command: str) -> list[tuple[str, str]]:
    """Return examples of `command`: command lines, and what each does."""
    rows = [line.split("  ", 1) for line in EXAMPLES.splitlines()]
    # A line may begin with another command, whose output this one reads.
    return [(line, text) for line, text in rows if re.findall(r"redbike (\w+)", line)[-1] == command]


def _show_examples(command: str, width: int) -> Iterator[str]:
    for line, text in list_examples(command):
        yield f"  {line}"
        yield from _fold(text, width, "      ", "      ")


def _align(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the lines of two columns; the first is never broken."""
    first = max(len(name) for name, _ in rows) + 4
    for name, text in rows:
        yield from _fold(text, width, f"  {name}".ljust(first), " " * first)


def _fold(text: str, width: int, first: str, others: str) -> list[str]:
    return wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
