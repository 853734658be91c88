"""Explain Redbike on one screen, and each command: what it does, its usage, its options, and examples."""

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

Set up  set       Enter a job: redbike set backup:A '0 3 * * *'
        load      Make the stored jobs those of a CSV file
        edit      Edit jobs in an editor, as crontab -e
        import    Take over a crontab, or a calendar
        check     Can all that is configured work?
Run     up        A dispatcher and workers in one foreground command
        dispatch  Move due jobs to their queues
        work      Work the jobs in the queues
Look    jobs      All jobs: status, next run, last run
        show      All about one job
        why       Why a job does not run, or did not
        health    Is all well?
        web       The same as pages in a browser
Steer   run       Run jobs once now
        pause     Hold jobs, a queue, or everything; resume ends that
        cancel    Drop what waits or runs
Keep    fsck      Check that every job is in its one place, and repair that

redbike help COMMAND explains one, with examples; redbike help --all lists all.
"""
EXAMPLES = """\
redbike set backup:A '0 3 * * *' --tz=Europe/Berlin  Each night at three o'clock in Berlin.
redbike set sync:A EVERY:15m --timeout=5m --on-error=retry  Every 15 minutes; retry it if it fails.
redbike set mail:B AT:2030-01-01T09:00:00Z --data='{"to": 7}'  Once, with data for its worker.
redbike set bill:A '0 6 1 * *' --tags=billing --owner='Ann, 4711' --note='Call her first'  Say whose it is.
redbike set disk:A '0 4 * * *' --ping-url=https://hc-ping.com/UUID  Be told if it does not run.
redbike set post:B '0 9 * * mon-fri' --except=holidays.ics  Not on the days of a calendar.
redbike set report:B 'RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17'  On the last Friday of each month.
redbike set clean:A@all '0 4 * * *'  On every host with a worker of A; clean:A@web1 is only on web1.
redbike unset mail:B  It will not run again.
redbike unset --tag=billing --dry-run  Which jobs would go?
redbike at 23:00 -- pg_dump foo --file=foo.sql  Once, tonight.
redbike at 'mon 9:00' < report.sh  A script, on Monday.
redbike in 2h -- ./clean --all  Once, two hours from now.
redbike now -- ./reindex  In the background, as soon as a worker is free.
redbike load jobs.csv  Set each row that differs: a job id, a comma, and a schedule.
redbike load jobs.csv --prune --dry-run  What would be set, and what would be unset as its row is gone.
redbike schedules --full | redbike load -  Read a backup.
redbike edit 'report:*'  The rows of some jobs, with their options.
redbike edit --tag=billing  Those of the jobs that have a tag.
redbike import crontab --out=jobs  Your own crontab.
redbike import crontab --system /etc/crontab --out=system  One whose lines name users.
redbike import ics team.ics --out=team.csv  A job for each event, in a file that load reads.
redbike import ics - --queue=A --tz=Europe/Berlin < team.ics  With midnight of Berlin for days.
redbike dispatch  With the worker that the config file names.
redbike work 'app:Worker("A:B")'  Class Worker in app.py takes jobs from the queues of A and B.
redbike work 'app:Worker("A:B")' --concurrency=10 --processes=2  Run up to 20 jobs at once.
redbike up 'app:Worker("A:B")' --schedules=jobs.csv  All that one machine needs.
redbike statuses --before=2030-01-01  What has not moved since then.
redbike schedules --full > backup.csv  Jobs, options and data, for load.
redbike schedules --tag=billing  Those of the jobs that have a tag.
redbike tell backup:A  As JSON, for programs; see show for people.
redbike next '0 3 * * mon-fri' --tz=Europe/Berlin  Try a schedule before you set it.
redbike next backup:A --count=10  The next ten runs of a job, as it is now.
redbike failures  What failed last, and has not succeeded since.
redbike failures --tag=billing > failures.jsonl  With the traceback of each.
redbike failures --format=table | less  The table, for another program.
redbike jobs --failed  What needs somebody.
redbike jobs --late  What has not begun, or not ended, in the time that its options give it.
redbike jobs --tag=billing,mail  Those that have one of these tags.
redbike jobs --overdue --queue=A  What is due in a queue and does not run.
redbike jobs 'report:*' --format=json  Jobs by a pattern, for a program.
redbike show backup:A  Did it run, when does it run next, what went wrong?
redbike why backup:A  Why does it not run?
redbike why backup:A --at=2025-01-01T03:00:00  Why did it not run then?
redbike incident  What happened in the last 20 minutes?
redbike incident 03:05±1h  What happened around the last 03:05?
redbike health  Is all well?
redbike health --max-lag=5m 'sync:*'  And have these jobs succeeded?
redbike alert --test  Try the setting alert.
redbike metrics  The figures, once.
redbike metrics --listen=9199  For Prometheus, at http://127.0.0.1:9199/metrics.
redbike web  The page, at http://127.0.0.1:8080/, for this machine alone.
redbike web --write --listen=0.0.0.0:8080  For all who know REDBIKE_WEB_TOKEN, also to steer.
redbike token add ci --role=operate --jobs='etl*' --expires=90d  For a program that runs some jobs, for 90 days.
redbike token add anna --role=read  For a person who only looks, at the page or by its API.
redbike token list  Who may do what, and until when.
redbike token remove ci  It may do nothing any more.
redbike web --api --write  The same, and an API at http://127.0.0.1:8080/api/.
redbike web --write --who-header=Remote-User --groups-header=Remote-Groups --roles=ops=operate  Behind Authelia.
redbike output backup:A  What the last run of a command has printed.
redbike output backup:A --failed --run=2  That of the last run but one which went wrong.
redbike output backup:A --follow  What it prints, until its run ends.
redbike runs backup:A  When it ran, how long, and how that ended.
redbike runs --failed --since='yesterday 18:00'  All runs since then that went wrong.
redbike queues  Where jobs wait, and since when.
redbike workers  Who is there, who is lost, and who runs what.
redbike shards  Which master has which part of the jobs, and does it answer?
redbike shards move --to=16  Divide the jobs among 16 shards, after redbike control HALT.
redbike agenda  The next 24 hours, and where too much comes together.
redbike agenda 'report:*' --hours=168 --format=csv  When some jobs run this week, for a program.
redbike log backup:A  Who set, paused or ran it.
redbike log --since=yesterday --who=amy  What somebody has changed since then.
redbike top  Live, until you press q.
redbike tail  All that happens.
redbike tail 'mail:*' --format=json  What happens to some jobs, an object a line.
redbike tail --output=backup:A  What happens to a job, and what its command prints.
redbike tail --tag=billing  What happens to the jobs that have a tag.
redbike tail --limit=100000 > events.csv  All that happens, even if that is very much.
redbike run backup:A  Now, in addition to its schedule.
redbike run --failed 'mail:*'  Run again what has failed for good.
redbike cancel sync:A  Drop its occurrence that waits or runs.
redbike backfill load:A --from=2026-11-01 --to=2026-11-08 --dry-run  What of that week has not run?
redbike backfill load:A --from='mon 0:00' --to=now --at-once=4  Run it, four at a time.
redbike pause backup:A --until=2030-01-01 --reason='the disk is full'  One job, for a time.
redbike pause --tag=billing --reason='the books are closed'  All jobs that have a tag.
redbike pause --tag=billing --every='0 2 * * sat' --for=2h  Each of them, each Saturday.
redbike pause --queue=B --until='mon 9:00'  No job of the queue is taken until then.
redbike pause --queue=B --every='0 2 * * sat' --for=2h  Each Saturday from two to four o'clock.
redbike resume --queue=B --every  Not any more.
redbike resume backup:A  It goes on.
redbike resume --queue=B  Jobs are taken again.
redbike limit B --at-once=5 --rate=100/m  Five at once, and 100 a minute, across all workers.
redbike limit B --rate=none  Take a limit back.
redbike check  Before a deployment, or in CI: can all that is configured work?
redbike check 'app:Worker("A:B")'  The same with this worker class.
redbike fsck  Nothing is printed if all is well.
redbike fsck --repair  Repair what is wrong.
redbike acknowledge  Somebody has looked: after a failover that lost writes.
redbike control HALT  All dispatchers and workers end after their jobs.
redbike server status  Does it run, and where?
redbike server stop  With all data on disk.
redbike completion bash  A script for ~/.bashrc: eval "$(redbike completion bash)"
redbike completion words -- show ba  What the scripts ask: how the last word may go on.
redbike help set  Explain a command.
redbike help --all  All commands and options.
"""


def print_help(usage: Usage, words: Sequence[str], is_whole: bool) -> int:
    """Explain the command that `words` name, or the most important ones, or all. Raise `UsageError` for no command."""
    print(explain(usage, usage.find_command(words)) if words else (usage.text if is_whole else OVERVIEW).strip())
    return DONE


def explain(usage: Usage, command: str) -> str:
    """Return the help for `command`, as wide as the terminal permits."""
    width = _measure(sys.stdout)
    options = [usage.options[name] for name in usage.get_options(command)]
    words = _find_words(usage, " ".join([usage.lines[command], *(option.spelling for option in options)]))
    sections = [
        _fold(usage.summaries[command], width, "", ""),
        show_usage(usage, [command], sys.stdout),
        ["Options:", *_align([(option.spelling, option.text) for option in options], width)] if options else [],
        ["Words:", *_align([(word, usage.words[word]) for word in words], width)] if words else [],
        ["Examples:", *_show_examples(command, width)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def show_usage(usage: Usage, commands: list[str], stream: TextIO) -> list[str]:
    """Return the lines of the usage of `commands`, as wide as `stream` permits."""
    width = _measure(stream)
    forms = (form for command in commands for form in split_forms(usage.lines[command]))
    return ["Usage:", *(line for form in forms for line in _fold(form, width, "  ", "      "))]


def _measure(stream: TextIO) -> int:
    """Return how many columns a text may have: those of the terminal, but no more than are easy to read."""
    columns = shutil.get_terminal_size((WIDEST, 24)).columns if stream.isatty() else WIDEST
    return max(NARROWEST, min(WIDEST, columns))


def _find_words(usage: Usage, text: str) -> list[str]:
    """Return what the usage explains of the words <…> in `text`, and of those in the explanations."""
    found: set[str] = set()
    while new := {word for word in re.findall(r"<(\w+)>", text) if word in usage.words} - found:
        found |= new
        text = " ".join(usage.words[word] for word in new)
    return [word for word in usage.words if word in found]


def list_examples(command: str) -> list[tuple[str, str]]:
    """Return command lines, and what each does."""
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
