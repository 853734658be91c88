"""Run command lines as jobs, without any Python: name the worker ``redbike.commands:Commands('A', 'jobs.ini')``.

The INI file has a command for the first part of a job id, up to its first ``:``. Below, the jobs ``backup:A`` and
``backup:db1:A`` run the command ``backup``::

    [commands]
    backup: /usr/local/bin/backup --full
    report: sh -c 'cd "$HOME" && ./report | mail -s "$REDBIKE_JOBID" boss'

    [backup]
    timeout = 2h
    retries = 2
    cwd = /var/lib/backup
    env.LANG = C.UTF-8

If the config file names the INI file by a relative name, Redbike looks for it in the folder of the config file. A
relative name on the command line, in ``REDBIKE_WORKER`` or in Python is looked for in the current folder. Commands that
only set or dispatch jobs do not read it.

A worker also runs what ``redbike at``, ``in`` and ``now`` have set, from the queue ``work-shell``: any command, with
the folder, the environment and the umask of the user who has set it. These are stored in Redis. ``shell_jobs=False``
after the file turns this off. ``Commands('')`` runs only such commands, and needs no file.

A worker reads the file when it starts, and again within two seconds after it has changed. Running commands do not
change. If the new file is invalid, or gone, one line of the log says so, and the previous commands stay in force.

A section with the name of a command may have the keys below. A key in the section ``[*]`` applies to all commands that
do not have this key in a section of their own.

- ``timeout``: how long a run may take, in seconds or as ``1h30m``. The default is no limit.
- ``on-error``: what happens after a failure: ``reschedule`` (the job runs again at its next occurrence), ``stop``
  (the job does not run any more) or ``retry`` (the run is retried, and then the job is stopped). The default is the
  ``on-error`` of the config file. If that has none, a recurring job is rescheduled, and a job that runs once is
  stopped.
- ``retries``: how often a failed run is retried before ``on-error`` applies. The first pause is the ``backoff`` of
  the config file, and the pauses grow. Without this key, ``retries`` of the config file counts, unless the command
  has ``on-error: stop`` or ``reschedule``.
- ``success``: the exit statuses of a run that has succeeded, such as ``0 1 3-5``. The default is 0.
- ``signal``: what asks the command to end: ``TERM`` (the default), ``INT``, ``HUP``, ``QUIT``, ``USR1``, ``USR2``,
  ``WINCH``, ``ABRT`` or ``KILL``. Its whole process group gets it.
- ``grace``: how long after ``signal`` the group gets SIGKILL. The default is five seconds. It is at most five seconds
  after a ``timeout`` of the job, and at most one second when a second signal ends the worker.
- ``on-timeout``: what happens after a timeout: ``reschedule``, ``stop`` or ``requeue``. The defaults are those of
  ``on-error``, with the ``on-timeout`` of the config file.
- ``cwd``: the folder to run it in, relative to the folder of the INI file. The default is the worker's current
  folder. A program such as ``./run`` is looked for there.
- ``env.NAME``: an environment variable, in addition to those of the worker.
- ``env-file``: a file of lines ``NAME=VALUE``, relative to the folder of the INI file. It is read at each run, as
  systemd reads an ``EnvironmentFile``: lines that begin with ``#`` or ``;`` are comments, a value may be in single or
  double quotes, ``\\`` escapes the next character, and nothing is evaluated. Its variables override those of
  ``env.NAME``. If the file cannot be read, or has an invalid line, the run fails. If every user may read it, the log
  says so once. In the log, and in all output that is kept or shown, values of four bytes or more are masked: ``***``.
- ``env``: ``worker``, the default, or ``cron``. With ``cron``, a command has none of the worker's variables. It has
  those that cron sets: HOME, LOGNAME, PATH (``/usr/bin:/bin``) and SHELL. ``env.NAME`` overrides them, except LOGNAME.
  Then the default of ``cwd`` is HOME.
- ``shell``: the path of a shell, such as ``/bin/sh``. It gets the command line as it is: ``/bin/sh -c LINE``.
- ``input``: the standard input. Without it, the standard input is empty.
- ``output``: how much of the end of its output is kept with each run, such as ``16k``, also after a success; ``redbike
  output`` prints it. The default is the setting ``output``; the option ``output`` of a job overrides both. At most
  1 MiB is kept of all runs of a job together.
- ``on-failure``: a command line that runs after a run that has failed, overran, or lost its worker, but not before a
  retry. It has the output of the run as its standard input, and the variables REDBIKE_OUTCOME (``failed``,
  ``overrun`` or ``lost``) and REDBIKE_ERROR besides those of the command. It delays no job, and is ended after 60
  seconds; a worker that stops waits 20 seconds for it. A lost run has no output. It runs in the folder of the
  command, or in ``/`` if that is missing. For a job without a command, the ``on-failure`` of ``[*]`` runs: after a lost
  run, and once if no worker of its queue has a command for the job. Then REDBIKE_OUTCOME is ``missing``, and each
  worker that has left the job runs it.
- ``backoff``: the pause after exit status 75 with ``CONTINUE``, in seconds or as ``5m``. The default is 60 seconds.

Blanks at the ends of a value are not part of it. ``json.`` before a key means that the value is a JSON string, and so
exact: ``json.input = "  one line\\nanother\\n"``.

Without ``shell``, a command line is split into words like in a shell, but no shell runs it. So ``~``, ``$NAME``,
``*``, ``|`` and ``>`` have no special meaning, neither there nor in ``cwd`` and ``env.NAME``. To use them, name a
``shell``, or write ``sh -c '…'``. ``redbike check`` notes an operator such as ``>`` that no shell reads. ``%`` has no
special meaning either: write ``%`` for the ``\\%`` of a crontab.

Environment variables describe the run to its command. A variable that does not apply is not set, even if the worker
has it:

- ``REDBIKE_JOBID`` and ``REDBIKE_QUEUE``.
- ``REDBIKE_DUE``: the due time, in epoch seconds. ``REDBIKE_ATTEMPT``: the number of this try of it, from 1.
- ``REDBIKE_KEY``: unique to an occurrence, and the same in each try of it.
- ``REDBIKE_DEADLINE``: when the command is ended, in epoch seconds, if it has a timeout; not for ``on-failure``.
- ``REDBIKE_DATA``: the data of the job, as JSON. Data over 32 KiB are in a file, which ``REDBIKE_DATA_FILE`` names.
  Only the user of the worker can read it, and it is removed after the run.
- ``REDBIKE_BACKFILL``: the id of this occurrence, in a backfill.

No part of a job id or of data becomes part of a command line, so a shell never reads one as code. The variables
``REDBIKE_URL``, ``REDIS_URL``, ``REDBIKE_ALERT``, ``REDBIKE_PING_URL``, ``REDBIKE_DISPATCHER_PING_URL`` and
``REDBIKE_WEB_TOKEN`` are not passed on, as they may contain secrets. A command that calls ``redbike`` needs the URL in
its ``env-file``, or in a config file: it starts no server of its own.

- An exit status of ``success``, which is 0 by default: the run has succeeded.
- Exit status 75 (``EX_TEMPFAIL``) with ``CONTINUE``: the run has succeeded, and the job is due again after
  ``backoff``.
- Any other exit status, a signal, or a command that cannot be run: the run has failed, and ``on-error`` applies. The
  end of its output is kept with the failure: see ``redbike failures``.
- A timeout: its process group gets ``signal`` and, after ``grace``, SIGKILL. Then ``on-timeout`` applies.
- ``redbike cancel``: its process group is ended in the same way. The run has not failed.

A worker runs ten commands at once, unless ``--concurrency`` says otherwise. After one signal or HALT, it waits until
its commands have ended. After a second signal it ends their process groups at once, and their jobs run again. A
worker that gets SIGKILL cannot end them. Then the next run of each job on the same host waits until the process group
of the last run is gone.

The output of a command is logged line by line, up to 64 KiB per run. A command that ends in time may leave processes
running in the background; up to 1 MiB of their output is read.
"""

from redbike.commands.worker import Commands

__all__ = ["Commands"]
