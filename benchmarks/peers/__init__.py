"""Adapters for other job systems, one module each, with this interface:

- ``PACKAGES``: the distributions whose versions are shown; ``SETTINGS``: how it is set up, in words; ``JOBS``: how many
  no-op jobs a full run has it drain, so that this takes some seconds.
- ``enqueue(number)``: enqueue one no-op job that calls `bench.record.ran` with its number. May be a coroutine function.
- ``schedule(number, moment)``: the same, to run at an instant (epoch seconds), where the system can.
- ``run_schedule(path)``: a worker that sets the jobs of a JSON file, pairs of number and instant, in its own process.
- ``work()``: be a worker process with the one queue, until stopped by SIGTERM.

One that is not written in Python has nothing but ``run(verb, *arguments)``, which does all verbs of `bench.drive`, and
writes the files of `bench.record`.

The server's URL is in the environment, in ``BENCH_URL``. The settings are the fastest of the usual ones: no results
kept where the system can do without, and as many threads or coroutines as made it fastest with no-op jobs.
"""
