"""The text that defines the command line and its help. It is no docstring, as Python may run without docstrings."""

TEXT = """Redbike runs jobs on cron, iCal RRULE and one-off schedules, with Redis or Valkey as the only moving part.

Usage:
  redbike [options] set [--after=<TIMESTAMP>] [--tz=<ZONE>] [--data=<JSON>] [--timeout=<DURATION>]
                        [--on-timeout=<POLICY>] [--on-error=<POLICY>] [--retries=<N>] [--backoff=<DURATION>]
                        [--max-backoff=<DURATION>] [--jitter=<SHARE>] [--on-lost=<POLICY>] [--catchup=<POLICY>]
                        [--catchup-limit=<N>] [--stop-after=<N>] [--grace=<DURATION>] [--expires=<DURATION>]
                        [--start-within=<DURATION>] [--finish-within=<DURATION>] [--finish-by=<HH:MM>]
                        [--overlap=<POLICY>] [--spread=<DURATION>] [--forget-after=<DURATION>] [--history=<N>]
                        [--keep-result=<POLICY>] [--output=<SIZE>] [--group-of=<NAME>] [--ping-url=<URL>]
                        [--traceparent=<TRACEPARENT>] [--tags=<TAGS>] [--owner=<NAME>] [--note=<TEXT>]
                        [--except=<ICS>] [--] <JOBID> <SCHEDULE>
  redbike [options] unset [--dry-run] [--] (<JOBID> | --tag=<TAG>)
  redbike [options] at <TIME> [--] [<PROGRAM> [<ARG>...]]
  redbike [options] in <DURATION> [--] [<PROGRAM> [<ARG>...]]
  redbike [options] now [--] [<PROGRAM> [<ARG>...]]
  redbike [options] load [--prune] [--prune-all] [--take] [--group=<NAME>] [--dry-run] [--after=<TIMESTAMP>]
                         [--tz=<ZONE>] [--format=<FORMAT>] <CSV>
  redbike [options] edit [--tag=<TAG>] [--yes] [--] [<PATTERN>...]
  redbike [options] import crontab [--system] [--queue=<QUEUE>] [--out=<PATH>] [--force] [--] [<FILE>]
  redbike [options] import ics [--queue=<QUEUE>] [--tz=<ZONE>] [--except=<ICS>] [--out=<PATH>] [--] <FILE>
  redbike [options] dispatch [<WORKER>] [--schedules=<CSV>] [--after=<TIMESTAMP>] [--ping-url=<URL>]
  redbike [options] work [<WORKER>] [--concurrency=<N>] [--processes=<N>]
  redbike [options] up [<WORKER>] [--schedules=<CSV>] [--concurrency=<N>] [--processes=<N>] [--ping-url=<URL>]
  redbike [options] statuses [--before=<TIMESTAMP>] [--tag=<TAG>]
  redbike [options] schedules [--full] [--tag=<TAG>] [--] [<PATTERN>...]
  redbike [options] tell [--] <JOBID>
  redbike [options] next [--count=<N>] [--after=<TIMESTAMP>] [--tz=<ZONE>] [--except=<ICS>] [--] <SCHEDULE>
  redbike [options] failures [--tag=<TAG>] [--format=<FORMAT>] [--] [<PATTERN>...]
  redbike [options] jobs [--queue=<QUEUE>] [--tag=<TAG>] [--status=<CODE>] [--failed] [--paused] [--overdue]
                         [--never-ran] [--planned] [--late] [--limit=<N>] [--format=<FORMAT>] [--] [<PATTERN>...]
  redbike [options] show [--format=<FORMAT>] [--] <JOBID>
  redbike [options] output [--run=<N>] [--failed] [--follow] [--] <JOBID>
  redbike [options] why [--at=<TIMESTAMP>] [--] <JOBID>
  redbike [options] incident [--] [<WINDOW>]
  redbike [options] health [--max-lag=<DURATION>] [--] [<PATTERN>...]
  redbike [options] alert --test
  redbike [options] metrics [--listen=<HOST:PORT>]
  redbike [options] web [--listen=<HOST:PORT>] [--root-path=<PATH>] [--write] [--api] [--show-data]
                        [--who-header=<NAME>] [--groups-header=<NAME>] [--roles=<ROLES>] [--trust-proxy=<CIDR>]
  redbike [options] token add --role=<ROLE> [--jobs=<PATTERN>]... [--expires=<TIME>] [--] <NAME>
  redbike [options] token list [--format=<FORMAT>]
  redbike [options] token remove [--] <NAME>
  redbike [options] runs [--since=<TIMESTAMP>] [--failed] [--tag=<TAG>] [--limit=<N>] [--format=<FORMAT>] [--]
                         [<PATTERN>...]
  redbike [options] queues [--format=<FORMAT>]
  redbike [options] workers [--format=<FORMAT>]
  redbike [options] shards [--format=<FORMAT>]
  redbike [options] shards move --to=<N>
  redbike [options] agenda [--hours=<N>] [--after=<TIMESTAMP>] [--tag=<TAG>] [--format=<FORMAT>] [--] [<PATTERN>...]
  redbike [options] log [--since=<TIMESTAMP>] [--who=<NAME>] [--limit=<N>] [--format=<FORMAT>] [--] [<JOBID>]
  redbike [options] top
  redbike [options] tail [--output=<JOBID>] [--tag=<TAG>] [--limit=<N>] [--format=<FORMAT>] [--] [<PATTERN>...]
  redbike [options] run [--dry-run] [--wait] [--]
                        (<JOBID>... | --tag=<TAG> [<JOBID>...] | --failed [--tag=<TAG>] [<PATTERN>])
  redbike [options] cancel [--dry-run] [--] (<JOBID>... | --tag=<TAG> [<JOBID>...])
  redbike [options] backfill --from=<TIMESTAMP> --to=<TIMESTAMP> [--at-once=<N>] [--again] [--alone]
                             [--dry-run] [--format=<FORMAT>] [--] <JOBID>
  redbike [options] pause [--until=<TIME>] [--every=<SCHEDULE>] [--for=<DURATION>] [--reason=<TEXT>] [--dry-run] [--]
                          (<JOBID>... | --tag=<TAG> [<JOBID>...] | --queue=<QUEUE> | --all)
  redbike [options] resume [--every] [--dry-run] [--]
                          (<JOBID>... | --tag=<TAG> [<JOBID>...] | --queue=<QUEUE> | --all)
  redbike [options] limit [--at-once=<N>] [--rate=<RATE>] [--] <QUEUE>
  redbike [options] check [<WORKER>]
  redbike [options] fsck [--repair]
  redbike [options] acknowledge
  redbike [options] control <SIGNAL>
  redbike [options] server (start | stop | status)
  redbike completion (bash | zsh | fish | words) [--] [<WORD>...]
  redbike help [--all | <COMMAND>]
  redbike (-h | --help)
  redbike --version

Commands:
  set        Set a job: its id and when it runs. No dispatcher needs to run for this. The options from --data to
             --note belong to the job and override the settings. The job keeps those that you do not give; "default"
             resets one, and "null" removes the data.
  unset      Remove a job, so it does not run again. A run in flight completes.
  at         Run a command once at a time, in this folder, with this environment and umask. Put -- before the command;
             without a command, the script on standard input runs. It prints the id of its job first. A worker of
             commands runs the job.
  in         Run a command once after a duration, as redbike at does at a time.
  now        Run a command once as soon as a worker is free, as redbike at does at a time.
  load       Make the stored jobs those of a CSV file with rows of JOBID,SCHEDULE; - is standard input. It prints what
             differs, names bad rows, and leaves all other jobs as they are. Under a header like that of schedules
             --full, further columns hold options, data and pauses.
  edit       Edit jobs in $VISUAL or $EDITOR, as the rows that schedules --full prints. It shows what would change,
             and asks. If you delete a row, it unsets the job.
  import     Import a crontab or a calendar. import crontab writes schedules.csv, commands.ini and .redbike.conf, which
             run your crontab, or the one in FILE, as cron did. Lines with DECIDE: need a decision from you. import ics
             prints a row for load per event, with its rule, zone and exceptions. With -, it reads standard input.
  dispatch   Run a dispatcher: it moves due jobs to their queues until you stop it.
  work       Run a worker: it runs the jobs in the queues until you stop it.
  up         Run a dispatcher and workers in one foreground command; Ctrl-C stops them all.
  statuses   Print the last event of every job, as CSV: jobid,event,timestamp.
  schedules  Print the schedule of every job, as CSV that load reads: jobid,schedule. With --full, also print options,
             data and pauses.
  tell       Print all about one job, as JSON.
  next       Say when a schedule, or a job by its id, runs next, and explain the schedule in words. A schedule needs
             no server.
  failures   List jobs that have failed and not succeeded since, the oldest failure first. To a pipe or a file, it
             writes one JSON object a line, with the traceback.
  jobs       List all jobs, or those that you name: status, next run, last run, schedule. On a terminal, jobs that
             need attention come first; CSV and JSON have no order.
  show       Describe one job for a person: what it does now, its next and last runs, its last failure.
  output     Print what the last run of a command printed, as far as the option output keeps it. --run=2 chooses the
             run before, and --failed only runs that went wrong. --follow prints the output of the present run until
             it ends, and exits 0 if the run succeeded, else 1.
  why        Say in one sentence why a job does not run now, or did not run when it was due, and what it waits for.
  incident   Report what Redbike knows about a span of time, and the first unusual thing in it.
  health     Print one line, and exit 0 if all is well: the server answers, a dispatcher is running, no job is
             overdue, no process was lost. With patterns, also check that each of these jobs succeeded when it was
             last due.
  alert      Send a test alert to the target in the setting alert, and print the result. redbike health says what is
             wrong now, and redbike failures which jobs fail.
  metrics    Print metrics for Prometheus once. With --listen, serve them, and the line of health, over HTTP.
  web        Serve jobs, runs, queues and workers as pages for a browser, and with --api as JSON for programs. The
             pages change nothing, unless you give --write. Other machines need a token: set REDBIKE_WEB_TOKEN, or
             make a token for each user with redbike token.
  token      Manage the tokens with which programs and people use the page and its API. token add makes a token, and
             prints it once. token list shows all tokens, and what each permits. token remove revokes one at once.
  runs       List the last ended runs of all jobs, or of those that you name, newest first.
  queues     List the queues: how many jobs wait in each, since when, what runs, and how many runs ended in the last
             minute.
  workers    List the dispatchers and workers, and the jobs that each runs. Lost processes come first.
  shards     List the shards among which the jobs are divided: the server of each, and how many jobs it has. shards
             move changes the number of shards; stop all dispatchers and workers first. If a move was interrupted, the
             same command continues it.
  agenda     Show what will run when: a bar for each quarter of an hour, the densest minutes, and how to spread their
             jobs.
  log        List what people have changed, newest first; with a JOBID, only what they changed of this job.
  top        Show the present state, live: lags, queues, processes, what is due next, failures. The last line names
             the keys that find, show, run, pause, resume and cancel jobs; q ends it.
  tail       Print each run that ends, and each change that somebody makes, as it happens, one a line; Ctrl-C ends it.
             --output=JOBID also prints what the commands of this job print.
  run        Run jobs once now, and forget their failures. A JOBID may be a pattern with *, ? and [...].
  cancel     Drop the waiting or running occurrence of each job. Its schedule goes on, and nothing counts as failed. If
             a job has a backfill, the first cancel ends only that.
  backfill   Run past occurrences of a job, the oldest first, except those that have succeeded. The jobs that follow
             it run after each. Its schedule goes on meanwhile. show says how far the backfill is, and cancel ends it.
  pause      Hold jobs, a queue, or everything, until somebody resumes them. Runs in flight complete. With --every and
             --for, it pauses them for that long at each time of a schedule: a blackout.
  resume     Let paused jobs, a queue, or everything go on. The setting catchup decides which missed occurrences run.
             With --every, end a blackout for good.
  limit      Limit how many jobs of a queue run, across all workers. Without an option, print the limits of the queue.
  check      Check the config, the worker class, the server and all stored jobs. It changes nothing, and exits 1 for a
             problem.
  fsck       Check that every job is in exactly one place. It prints each job that is not, and then exits 1. With
             --repair, it repairs them, and exits 1 only if it cannot repair all. If the server has lost writes, it
             reports that until somebody runs redbike acknowledge.
  acknowledge  Print each time that the server went back, as at a failover that lost writes. After that, health and
             fsck no longer report it.
  control    Send HALT to all that run now: dispatchers stop, and workers stop after their current jobs.
  server     Start, stop, or describe the embedded server in .redbike/ of the current folder.
  completion  Print a script with which a shell completes command lines. The script runs completion words to list what
             may follow.
  help       Explain a command, with examples. Without a command, list the most important ones on one screen.

Options:
  -c --config=<CONF>       The config file [default is .redbike.conf, if it exists].
  --url=<URL>              The server: redis://, unix://, redis+sentinel://, redis+cluster:// or embedded:; with TLS:
                           rediss://, rediss+sentinel://, redis+clusters://
  -a --after=<TIMESTAMP>   Leave out occurrences up to this time.
  --tz=<ZONE>              The time zone of times that name none, such as Europe/Berlin.
  --data=<JSON>            The data for its worker, any JSON value.
  --timeout=<DURATION>     How long a run may take.
  --on-timeout=<POLICY>    After a timeout: stop, reschedule, requeue.
  --on-error=<POLICY>      After a failure: stop, reschedule, retry.
  --retries=<N>            How often a failed run is tried again, before on-error decides.
  --backoff=<DURATION>     The pause before the first retry.
  --max-backoff=<DURATION>  The longest pause between two tries.
  --jitter=<SHARE>         Shorten each pause between two tries at random by up to this share of it, from 0 to 1.
  --on-lost=<POLICY>       After its worker died: requeue, reschedule, stop.
  --catchup=<POLICY>       Which missed occurrences run: last, none, all.
  --catchup-limit=<N>      How many missed occurrences catchup=all runs.
  --stop-after=<N>         Stop the job after so many failed occurrences in a row, each with its retries.
  --grace=<DURATION>       Skip an occurrence that is late by more than this.
  --expires=<DURATION>     Skip an occurrence that has not begun within this time. With token: when the token expires,
                           such as 90d or a TIME.
  --start-within=<DURATION>  Alert if an occurrence has not begun within this time.
  --finish-within=<DURATION>  Alert if an occurrence has not ended within this time.
  --finish-by=<HH:MM>      Alert if an occurrence has not ended by this time of day, such as 06:00.
  --overlap=<POLICY>       If an occurrence is due during a run: skip, queue.
  --spread=<DURATION>      Delay each run by a fixed part of this; a hash of the job id chooses the part.
  --forget-after=<DURATION>  Forget a one-off this long after its run succeeded; with "never", keep it.
  --history=<N>            How many ended runs Redbike keeps.
  --keep-result=<POLICY>   Whether Redbike keeps the value that work returns with the run: no, yes.
  --output=<SIZE>          How much of the end of a command's output Redbike keeps with each run, such as 16k. With
                           tail: the id of a job, whose output it prints too.
  --group-of=<NAME>        The group that the job belongs to. When all jobs of the group have ended, the job with the
                           schedule GROUP:<NAME> is due.
  --ping-url=<URL>         A URL to call after each run. With dispatch and up: a URL that the dispatcher calls each
                           minute.
  --traceparent=<TRACEPARENT>  The span to link its runs to, in the format of W3C Trace Context.
  --tags=<TAGS>            Tags by which --tag finds the job, such as billing,nightly.
  --owner=<NAME>           Who is responsible for the job.
  --note=<TEXT>            A note for people who look at the job.
  --except=<ICS>           Skip the days of all-day events in this calendar, such as holidays.ics, for the next two
                           years.
  -s --schedules=<CSV>     A file with rows of JOBID,SCHEDULE, which are set first.
  --count=<N>              How many runs to print [default is 5].
  --format=<FORMAT>        The format: csv, json or table [default is table on a terminal, else csv]. With failures: the
                           format: csv, json or table [default is table on a terminal, else one JSON object a line].
                           With show: the format: csv, json or table [default is a page for people].
  --follow                 Print the output until the run ends.
  --run=<N>                Which run, counted from the newest [default is 1].
  --at=<TIMESTAMP>         A past time, such as when the job should have run.
  --max-lag=<DURATION>     How long a job may be late or wait in a queue [default is 60 s].
  --test                   Send a test alert.
  --listen=<HOST:PORT>     Where to listen: 9199 is a port of the loopback interface, 0.0.0.0:9199 one of all
                           interfaces [default with web is 127.0.0.1:8080].
  --root-path=<PATH>       The path at which a proxy serves the page, such as /redbike. The proxy may strip it or keep
                           it.
  --write                  Let the page also make changes: run, pause, set and unset jobs.
  --api                    Also serve JSON to programs, below /api/.
  --who-header=<NAME>      The header in which a proxy names the user of a request, for the log.
  --groups-header=<NAME>   The header in which a proxy names the groups of this user, for --roles.
  --roles=<ROLES>          The role of each group of users whom a proxy authenticates, such as
                           admins=write,ops=operate; * is every user.
  --trust-proxy=<CIDR>     Trust these headers also from proxies at this address or in this network. Without it, only
                           proxies on this machine are trusted.
  --role=<ROLE>            What the token permits. read: to look. operate: also to run, cancel, pause and resume jobs.
                           write: all that --write permits.
  --jobs=<PATTERN>         Limit the token to these jobs. You may give it several times.
  --show-data              Let the page also show data, output and tracebacks of jobs.
  --status=<CODE>          Only jobs with this status: TML, ENQ, WRK, STP, DIE or BAD.
  --paused                 Only jobs that are paused.
  --overdue                Only jobs that are due, but neither run nor are paused.
  --late                   Only jobs that have not begun or ended within the time that their options give.
  --never-ran              Only jobs without a known run; see --history.
  --planned                Only jobs that have a next run.
  --failed                 Only runs that went wrong. With jobs: only those that have failed for good, or whose last run
                           failed. With run: all jobs that have failed for good.
  --since=<TIMESTAMP>      Only runs that started then or later. With log: only changes that were made then or later.
  --who=<NAME>             Only changes by users whose name contains this, such as amy or web1.
  --hours=<N>              How far to look ahead, up to 168 [default is 24].
  --limit=<N>              The most rows to print [default is 100 for runs, and for jobs on a terminal]. With tail:
                           the most events a second [default is 1000].
  --queue=<QUEUE>          A queue by its full name, such as work-A; for the stock workers, A is enough. With import:
                           the end of each job id [default is cron-HOST, and calendar for calendars].
  --tag=<TAG>              Only jobs that have this tag; with a,b, jobs that have either tag. Without ids or patterns,
                           all jobs that have it.
  --system                 Each line of the crontab names a user, as in /etc/crontab and /etc/cron.d.
  --out=<PATH>             The folder for the files of import crontab [default is the current folder], or the file for
                           the rows of import ics [default is standard output].
  --force                  Replace existing files.
  --all                    Everything: while it is paused, no job is enqueued and none is taken. With help: all
                           commands and options.
  --until=<TIME>           When the pause ends by itself.
  --every=<SCHEDULE>       The schedule by which a blackout begins, for the jobs that match now. With resume:
                           end the blackout for good; without a value.
  --for=<DURATION>         How long each blackout lasts.
  --reason=<TEXT>          The reason, for people who look at the pause.
  --at-once=<N>            How many jobs of the queue may run at once; none removes the limit. With backfill: how many
                           of its occurrences may run at once, 1 to 1000.
  --rate=<RATE>            How many jobs may begin in a time: 100/m, 5/s, 1/h; none removes the limit.
  --from=<TIMESTAMP>       The due time of the first occurrence to run.
  --to=<TIMESTAMP>         The due time of the last occurrence to run; a future time means now. With shards move: the
                           number of shards, 1 to 64. The old number takes back a move that was interrupted early.
  --again                  Also run occurrences that have succeeded.
  --alone                  Do not run the jobs that follow it.
  --dry-run                Change nothing; only print the jobs that match. With load: change nothing;
                           only print what would change. With backfill: begin nothing; only print the runs.
  --wait                   Print how each run ends, and exit 1 unless all succeed. Ctrl-C ends only the waiting.
  --prune                  Unset jobs that an earlier load of this file has set, and that the file no longer has.
  --prune-all              As --prune, even if that unsets all jobs of the file, or more than five that are over a
                           tenth of them.
  --take                   Take over jobs of another file or program. Without it, Redbike refuses their rows.
  --group=<NAME>           The group to which the jobs belong. --prune unsets only jobs of this group [default is the
                           setting group and the path of the file].
  --yes                    Do not ask before the change.
  --full                   Print all columns under a header, as a backup.
  --repair                 Repair what is wrong. Dispatchers and workers may run meanwhile.
  -b --before=<TIMESTAMP>  Only jobs whose last event was before this time.
  --concurrency=<N>        How many jobs each process runs at once [default is 1, with Commands and Jobs 10].
  --processes=<N>          How many worker processes to start [default is 1].
  -h --help                Print this help.
  --version                Print the version.

Words:
  DURATION   Seconds, or a text such as 15m or 2h.
  JOBID      The part after the last : names the queue. A job whose id ends in @web1 runs on the host web1 only. One
             whose id ends in @all runs on every host of its queue.
  PATTERN    A job id in which * stands for any characters, ? for one character, and [...] for one of those in it.
  SCHEDULE   NOW, AT:<TIMESTAMP>, IN:<DURATION>, CONTINUE, STOP, EVERY:<DURATION>[@<TIMESTAMP>],
             AFTER:<JOBID>[,<JOBID>...] [ok|failed|any], GROUP:<NAME>, a cron expression of five to seven fields, or
             the lines of an iCal RRULE. Lines of EXDATE and RDATE may follow a cron expression. ALL:<SCHEDULE> runs a
             job on every host.
  TIME       The same as TIMESTAMP.
  TIMESTAMP  Epoch seconds, ISO 8601, or a time such as 22:45, mon 9:00, tomorrow 6:00, +1h or 24 dec 18:00. It means
             the next such instant, or the last one if the command looks back. In a schedule, only epoch seconds and
             ISO 8601 may follow AT: and @.
  WINDOW     A TIMESTAMP, or one with ±<DURATION> or +-<DURATION> after it, such as 03:05 or 03:05±20m [default is
             now±20m].
  WORKER     package.module:Class('init string'), or package.module:jobs for an instance, such as one of redbike.Jobs.

Exit status: 0 done, 1 failed, 2 bad usage or bad input.
"""
