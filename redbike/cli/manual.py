"""Redbike runs jobs on cron, iCal RRULE and one-off schedules, with Redis or Valkey as the only moving part.

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
  redbike [options] run [--dry-run] [--] (<JOBID>... | --tag=<TAG> [<JOBID>...] | --failed [--tag=<TAG>] [<PATTERN>])
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
  set        Enter a job: its id and when it runs. It need not wait for a dispatcher. The options from --data to
             --note are those of the job, and override the settings. It keeps those that are not given;
             "default" takes one back, and "null" the data.
  unset      Take a job out of the rotation; a run in flight completes.
  at         Run a command once at a time, or the script on standard input, in this folder, with this environment and
             umask. -- stands before the command. It prints the id of its job first. A worker of commands runs it.
  in         The same after a duration.
  now        The same as soon as a worker is free.
  load       Make the stored jobs those of a CSV file with rows of JOBID,SCHEDULE, or of - for standard input, and print
             what differs. What is the same is not touched; bad rows are named. Under a header as schedules --full
             prints it, the further columns are options, data and pauses.
  edit       Edit the rows of jobs, as schedules --full prints them, in $VISUAL or $EDITOR; show what would change, and
             ask. A row that is deleted unsets its job.
  import     crontab: write schedules.csv, commands.ini and .redbike.conf, which run a crontab as cron did: that of the
             user, or FILE, - for standard input. What a person must decide is marked in them with DECIDE:.
             ics: print a row for load for each event of a calendar, with its rule, zone and exceptions.
  dispatch   Move due jobs to their queues, until halted.
  work       Work the jobs in the queues, until halted.
  up         A dispatcher and workers in one foreground command; Ctrl-C stops them all.
  statuses   The last event of every job, as CSV: jobid,event,timestamp.
  schedules  The schedule of every job, as CSV that load reads back: jobid,schedule. With --full also options, data and
             pauses.
  tell       All about one job, as JSON.
  next       When a schedule runs next, and what it says in words; also for the id of a job. Needs no server.
  failures   The jobs that have failed and not succeeded since, the oldest failure first. To a pipe or a file, a JSON
             object a line, with the traceback.
  jobs       All jobs, or those that are named: status, next run, last run, schedule.
             What needs you comes first on a terminal; as CSV or JSON they come in no order.
  show       All about one job, for a person: what it does now, its next and last runs, its last failure.
  output     What the last run of a command has printed, as far as it is kept: see the option output. --run=2 is the
             run before, and --failed one that went wrong. --follow shows it while it runs, and ends with the run:
             with status 0 if that has succeeded, and 1 otherwise.
  why        One sentence: why a job does not run now, or did not when it was due, and what it waits for.
  incident   What is known of a span of time, as text for a report, and the first unusual thing in it.
  health     One line, and exit 0 if all is well: the server answers, a dispatcher is running, no job is overdue, no
             process was lost. With patterns, also whether these jobs have succeeded when they were last to run.
  alert      Send a test to the setting alert, which is told what is wrong, and print what has become of it.
  metrics    Metrics for Prometheus: print them once, or with --listen serve them, and the line of health, over HTTP.
  web        Jobs, runs, queues and workers as pages in a browser, and with --api as JSON for programs, until it is told
             to stop. They only show, unless --write is given. Other machines need a token: set REDBIKE_WEB_TOKEN, or
             give one to each by redbike token.
  token      add: make a token for a program, or a person, that asks the page or its API, and print it, once. list: all
             tokens, and what each may do. remove: take one back, at once.
  runs       The last ended runs of all jobs, or of those that are named, newest first.
  queues     Every queue: what waits in it, since when, what runs, and how many runs ended in the last minute.
  workers    Every dispatcher and worker, and the jobs that it runs. Lost ones come first.
  shards     The shards among which the jobs are divided: on which server each is, and what it has. move divides them
             among another number, while no dispatcher and no worker is there; begun again, it goes on.
  agenda     What will run when: a bar for each quarter of an hour, the densest minutes, and how to spread their jobs.
  log        What people have changed, or have changed of a job, newest first.
  top        A screen that shows how things are now: lags, queues, processes, what is due next, failures. Its last line
             names the keys that find, show, run, pause, resume and cancel jobs; q ends it.
  tail       Each run that ends and each change by somebody, as it happens, a line each; Ctrl-C ends it.
             --output=JOBID also shows what the commands of this job print.
  run        Run jobs once now, and forget their failures. A JOBID may be a pattern with *, ? and [...].
  cancel     Drop what waits or runs of jobs; their schedules go on, and nothing has failed. A backfill ends first.
  backfill   Run the occurrences of a job that are past, and what follows each, beside its schedule: oldest first, and
             none that has ended well. show says how far it is, and cancel ends it.
  pause      Hold jobs until they are resumed, a queue, or everything; runs in flight complete. With --every and --for
             it is paused for so long at each time of a schedule: a blackout.
  resume     Let what is paused go on. What came due meanwhile was missed: the setting catchup decides. With --every,
             end a blackout for good.
  limit      Limit how many jobs of a queue run, across all workers; without an option print its limits.
  check      Check the config, the worker class, the server and all stored jobs; exits 1 for a problem, changes nothing.
  fsck       Check that every job is in its one place; prints what is not, and exits 1 then.
             With --repair, bring it there, and exit 1 only if that cannot be done for all.
             It also says that the server went back in time, until somebody has acknowledged it.
  acknowledge  Print each time that the server went back, as at a failover that lost writes; health and fsck do not
             report it any more.
  control    HALT stops every dispatcher and worker that runs now, each after its current job.
  server     The embedded server in .redbike/ of the current folder.
  completion  Print a script by which a shell completes command lines. It asks completion words for what may follow.
  help       Explain a command, with examples; without one the most important ones, on one screen.

Options:
  -c --config=<CONF>       The config file [default is .redbike.conf, if there is one].
  --url=<URL>              The server: redis://, unix://, redis+sentinel://, redis+cluster:// or embedded:;
                           with TLS: rediss://, rediss+sentinel://, redis+clusters://
  -a --after=<TIMESTAMP>   From when occurrences count.
  --tz=<ZONE>              The zone of times that name none, such as Europe/Berlin.
  --data=<JSON>            What its worker is given, any JSON value.
  --timeout=<DURATION>     How long a run may take.
  --on-timeout=<POLICY>    After a timeout: stop, reschedule, requeue.
  --on-error=<POLICY>      After a failure: stop, reschedule, retry.
  --retries=<N>            How often a failed run is tried again, before on-error decides.
  --backoff=<DURATION>     The pause before the first retry.
  --max-backoff=<DURATION>  The longest pause between two tries.
  --jitter=<SHARE>          Shorten each pause between two tries at random by up to this share of it, from 0 to 1.
  --on-lost=<POLICY>       After its worker died: requeue, reschedule, stop.
  --catchup=<POLICY>       Which missed occurrences run: last, none, all.
  --catchup-limit=<N>      How many missed occurrences catchup=all runs.
  --stop-after=<N>         Stop it after so many failed occurrences in a row, each with its retries.
  --grace=<DURATION>       Skip an occurrence that is later than this.
  --expires=<DURATION>     Skip an occurrence that has not begun in this time; of a token, when it ends: 90d, or a
                           time as people say it.
  --start-within=<DURATION>  Alert if an occurrence has not begun in this time.
  --finish-within=<DURATION>  Alert if an occurrence has not ended in this time.
  --finish-by=<HH:MM>      Alert if an occurrence has not ended by this time of day, such as 06:00.
  --overlap=<POLICY>       An occurrence that is due during a run: skip, queue.
  --spread=<DURATION>      Run it later by a fixed share of this, hashed from its id.
  --forget-after=<DURATION>  Forget a one-off so long after its run has succeeded, or never.
  --history=<N>            How many ended runs are kept.
  --keep-result=<POLICY>   Whether what work returns is kept with the run: no, yes.
  --output=<SIZE>          How much of the end of its output is kept with each run of a command, such as 16k.
  --group-of=<NAME>        The group that the job is one of; when all of it have ended, the job GROUP:<NAME> is due.
  --ping-url=<URL>         A URL to call after each run; with dispatch and up one that the dispatcher calls each minute.
  --traceparent=<TRACEPARENT>  The span that its runs are linked to, in the format of W3C Trace Context.
  --tags=<TAGS>            Words by which --tag finds it, such as billing,nightly.
  --owner=<NAME>           Who answers for it, for whoever looks at it.
  --note=<TEXT>            What one should know of it, for whoever looks at it.
  --except=<ICS>           Leave out the holidays of a calendar, such as holidays.ics, of the next two years.
  -s --schedules=<CSV>     Rows of JOBID,SCHEDULE that are set first.
  --count=<N>              How many instants [default is 5].
  --format=<FORMAT>        csv, json or table; without it table on a terminal, otherwise csv, with failures a JSON
                           object a line. show is always a page.
  --follow                 Until the run ends.
  --run=<N>                Which run, counted from the newest [default is 1].
  --at=<TIMESTAMP>         An instant that is past.
  --max-lag=<DURATION>     How long a job may be late or wait in a queue [default is 60 s].
  --test                   Send a test.
  --listen=<HOST:PORT>     Where to listen, such as 9199, which is the loopback interface, or 0.0.0.0:9199
                           [default with web is 127.0.0.1:8080].
  --root-path=<PATH>       Where a proxy shows the page, such as /redbike, whether it strips that or not.
  --write                  Let the page also steer: run, pause, set and unset jobs.
  --api                    Also answer programs, in JSON, below /api/.
  --who-header=<NAME>      The header in which a proxy says who sends a request, for the log.
  --groups-header=<NAME>   The header in which a proxy says of which groups that user is, for --roles.
  --roles=<ROLES>          What users of groups may do whom a proxy has let in, such as admins=write,ops=operate; * is
                           each user.
  --trust-proxy=<CIDR>     Believe these headers of proxies at this address, or of this network, too; without it only of
                           those on this machine.
  --role=<ROLE>            What a token may do: read; operate, which is also to run, cancel, pause and resume jobs; or
                           write, which is everything that --write permits.
  --jobs=<PATTERN>         Only these jobs; it may be given several times.
  --show-data              Let the page also show data of jobs, output and tracebacks.
  --status=<CODE>          Only jobs with this status: TML, ENQ, WRK, STP, DIE or BAD.
  --paused                 Only jobs that are paused.
  --overdue                Only jobs that are due, and neither run nor are paused.
  --late                   Only jobs that have not begun, or not ended, in the time that their options give them.
  --never-ran              Only jobs of which no run is known; see --history.
  --planned                Only jobs that have a time for their next run.
  --failed                 With jobs those whose last run failed, with runs those that went wrong,
                           with run all jobs that have failed for good.
  --since=<TIMESTAMP>      Only runs that started then or later, and with log what was changed then or later.
  --who=<NAME>             Only what those have changed in whose names this is a part, such as amy or web1.
  --hours=<N>              How far to look ahead, up to 168 [default is 24].
  --limit=<N>              How many rows [default is 100 for runs, and for jobs on a terminal]; with tail how many
                           events a second [default is 1000].
  --queue=<QUEUE>          A queue by its full name, such as work-A; with the stock workers A will do. With import the
                           end of each job id [default is cron-HOST, and calendar for calendars].
  --tag=<TAG>              Only jobs that have this tag, or with a,b one of these; without ids or patterns, all of them.
  --system                 The lines of the crontab name a user, as in /etc/crontab and /etc/cron.d.
  --out=<PATH>             Where import crontab writes its files [default is the current folder], and import ics its
                           rows [default is standard output].
  --force                  Replace files that are there.
  --all                    Everything: no job is enqueued, and none is taken; with help all commands and options.
  --until=<TIME>           When the pause ends by itself.
  --every=<SCHEDULE>       When a blackout begins, again and again, of the jobs that match now; with resume no value.
  --for=<DURATION>         How long each blackout lasts.
  --reason=<TEXT>          Why, for whoever looks at it.
  --at-once=<N>            How many jobs of the queue may run at once; none is no limit. With backfill 1 to 1000.
  --rate=<RATE>            How many may begin in a time: 100/m, 5/s, 1/h; none takes the limit back.
  --from=<TIMESTAMP>       The first due time that is meant.
  --to=<TIMESTAMP>         The last due time that is meant; one that is to come is now. With shards move the number of
                           shards, 1 to 64; that of before takes back what was interrupted early.
  --again                  Also what has ended well.
  --alone                  Without the jobs that follow it.
  --dry-run                Only print the jobs that are meant, with load what would differ, with backfill the runs.
  --prune                  Unset the jobs that an earlier load of this file has set, and that are not in it any more.
  --prune-all              The same, also for all jobs of the file, or more than five that are over a tenth of them.
  --take                   Take over the jobs that another file or program has; without it these rows are refused.
  --group=<NAME>           As the rows of what the jobs count for --prune [default is the setting group and its path].
  --yes                    Do not ask.
  --full                   All columns under a header, as a backup.
  --repair                 Put right what is wrong; dispatchers and workers may go on meanwhile.
  -b --before=<TIMESTAMP>  Only jobs whose last event was before.
  --concurrency=<N>        Jobs at once in each process [default is 1, with Commands 10].
  --processes=<N>          Worker processes [default is 1].
  -h --help                Show this.
  --version                Show the version.

Words:
  DURATION   Seconds, or a text such as 15m or 2h.
  JOBID      Behind its last : stands its queue. One that ends in @web1 runs on the host web1, one that ends in @all
             on every host of its queue.
  PATTERN    A job id in which * stands for any characters, ? for one, and [...] for one of a few.
  SCHEDULE   NOW, AT:<TIMESTAMP>, IN:<DURATION>, CONTINUE, STOP, EVERY:<DURATION>[@<TIMESTAMP>],
             AFTER:<JOBID>[,<JOBID>...] [ok|failed|any], GROUP:<NAME>, five to seven fields of cron, which lines of
             EXDATE and RDATE may follow, or the lines of an iCal RRULE. ALL:<SCHEDULE> for a job on every host.
  TIME       The same as TIMESTAMP.
  TIMESTAMP  Epoch seconds, ISO 8601, or a time as people say it, such as 22:45, mon 9:00, tomorrow 6:00, +1h or
             24 dec 18:00: the next such instant, or the last one if the command looks back. Behind AT: and @ of a
             schedule, epoch seconds or ISO 8601.
  WINDOW     A TIMESTAMP, or one ±<DURATION>, also with +-, such as 03:05 or 03:05±20m [default is now±20m].
  WORKER     package.module:Class('init string'), or package.module:jobs for an instance, as of redbike.Jobs.

Exit status: 0 done, 1 failed, 2 bad usage or bad input.
"""
