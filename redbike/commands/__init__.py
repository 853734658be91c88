"""A stock worker that runs command lines, for jobs that need no Python: ``redbike.commands:Commands('A', 'jobs.ini')``.

The INI file maps the first part of a job id, up to its first ``:``, to a command; ``backup`` below serves ``backup:A``
and ``backup:db1:A``::

    [commands]
    backup: /usr/local/bin/backup --full
    report: sh -c 'cd "$HOME" && ./report | mail -s "$REDBIKE_JOBID" boss'

    [backup]
    timeout = 2h
    retries = 2
    cwd = /var/lib/backup
    env.LANG = C.UTF-8

A relative name of the file is looked for in the folder of the config file that names it, or in the current folder if it
is given on the command line or in Python. The file is read once, when the worker starts; whoever only sets jobs or
dispatches them does not need it.

A section that is named like a command may have:

- ``timeout``: how long it may take, in seconds or as ``1h30m``; without it there is no limit.
- ``on-error``: what a failure does: ``reschedule`` (the job goes on to its next occurrence), ``stop`` (it is not run
  any more) or ``retry`` (it is tried again, and then stopped). Without it, ``on-error`` of the config file counts;
  where that is not given either, a recurring job is rescheduled, and one that runs once is stopped.
- ``retries``: how often a run that failed is tried again before ``on-error`` decides, with growing pauses from the
  ``backoff`` of the config file on. Without it, a run is only tried again with ``retry``.
- ``on-timeout``: the same for a run that was ended because its time was over: ``reschedule``, ``stop`` or ``requeue``.
- ``cwd``: the folder that it runs in, relative to that of the INI file; without it, the worker's current folder. A
  program such as ``./run`` is looked for there.
- ``env.NAME``: a variable of its environment, beside those of the worker.
- ``backoff``: the pause after exit status 75 with ``CONTINUE``, in seconds or as ``5m``; 60 seconds without it.

A command line is split into words as a shell would, but no shell runs it: ``~``, ``$NAME``, ``*``, ``|`` and ``>`` mean
nothing, in ``cwd`` and ``env.NAME`` neither. Who wants them writes ``sh -c '…'``. ``%`` means nothing special either: a
``\\%`` of a crontab is written ``%`` here. A command finds its job in its environment, as ``REDBIKE_JOBID`` and
``REDBIKE_DUE`` (epoch seconds). No part of a job id gets into a command line, so a shell never reads one as code.
``REDBIKE_URL`` and ``REDIS_URL``, which may hold a password, are not passed on.

- Exit status 0: the run is done.
- Exit status 75 (``EX_TEMPFAIL``) with ``CONTINUE``: it is done too, and the job is due again after ``backoff``.
- Any other, a signal, or a command that cannot be run: the run has failed, and ``on-error`` decides. The end of what it
  printed is kept with the failure, see ``redbike failures``.
- Its time is over: its process group gets SIGTERM and then SIGKILL, and ``on-timeout`` decides.

A worker runs ten commands at once, unless ``--concurrency`` says otherwise. When it is told to stop, by one signal or
HALT, it lets its commands end by themselves. When it ends at once, by a second signal, it ends their process groups
first, and their jobs are run again. A worker that is killed by SIGKILL cannot do that: then the next run of each job
waits on the same host until the process group of the last one is gone.

What a command prints is logged line by line, up to 64 KiB per run. A process that it leaves behind in the background is
left alone after a run in time, but nobody reads what that prints any more.
"""

from redbike.commands.worker import Commands

__all__ = ["Commands"]
