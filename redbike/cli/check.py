"""Run the command check, which looks for problems in the config, the worker class, the server and all stored jobs."""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from redbike.cli.arguments import Arguments
from redbike.cli.bike import find_stopped_server
from redbike.cli.messages import DONE, FAILED, Report, open_progress
from redbike.config.file import Config, examine
from redbike.connection.client import aim_at, connect
from redbike.connection.options import list_bad_arguments
from redbike.errors import BadConfig, RedbikeError
from redbike.loop.naming import NoWorker, open_store
from redbike.queries.check.findings import Finding, note
from redbike.queries.check.jobs import JobsCheck
from redbike.queries.check.surroundings import (
    ServerCheck,
    WorkerCheck,
    check_running,
    check_settings,
    check_shared,
    check_zones,
)
from redbike.schedule.moments import join_words
from redbike.text.printable import name_number
from redbike.worker.loader import load_worker


class _Check:
    """Checks one thing after the other, and remembers in `looked_at` what it has checked."""

    def __init__(self, arguments: Arguments) -> None:
        self._path = arguments["--config"]
        worker = arguments["<WORKER>"]
        self._examined = examine(self._path, os.environ, url=arguments["--url"], worker=worker)
        self._config = self._examined.config
        self.looked_at = ["the config"]

    def run(self, report: Report | None) -> Iterator[Finding]:
        """Yield each problem and each remark. `report` is called with the progress of the check of jobs."""
        yield from check_settings(self._examined, self._path)
        jobs: dict[str, Any] = {}  # what the check of jobs needs to know about the worker class
        worker: Any = NoWorker()
        settings = self._config.settings
        if settings.worker is not None:
            self.looked_at.append("the worker class")
            try:
                worker = load_worker(settings.worker, self._config.folder)
            except BadConfig as error:
                yield Finding(str(error))
                jobs["names_queues"] = False
            else:
                check = WorkerCheck(worker)
                yield from check.run(settings)
                jobs |= {"queues": check.queues, "needed": check.needed}
        try:
            yield from self._check_server(worker, jobs, report)
        except RedbikeError as error:
            # The message of each error names its subject.
            yield Finding(str(error))

    def _check_server(self, worker: Any, given: dict[str, Any], report: Report | None) -> Iterator[Finding]:
        if "prefix" in self._examined.bad:
            return  # the bad prefix was reported, and the default one has other jobs
        if isinstance(self._config.redis, dict) and list_bad_arguments(self._config.redis):
            return  # they were reported
        settings = self._config.settings
        if server := find_stopped_server(self._config):
            yield note(f"no server runs in {str(server.folder)!r}, so check skipped the jobs; redbike up starts one")
            return
        with connect(self._config.redis) as client:
            self.looked_at.append("the server")
            prefix = aim_at(client, settings.prefix)
            store = open_store(client, replace(settings, prefix=prefix), worker)
            # Several shards may be on one server.
            servers = [ServerCheck(shard) for shard in store.shards]
            yield from dict.fromkeys(chain.from_iterable(server.run(settings.timefile) for server in servers))
            try:
                store.agreement.check()
            except BadConfig as error:
                yield Finding(str(error))
                return
            processes = store.workers.list_all()
            yield from check_shared(settings, processes)
            yield from check_zones(processes)
            checks = [JobsCheck(shard, **given) for shard in store.shards]
            yield from chain.from_iterable(check.run(report) for check in checks)
            number = sum(check.number for check in checks)
            self.looked_at.append(name_number(number, "job"))
            if number and not any(server.refuses_all for server in servers):
                yield from check_running(processes)


def check_all(arguments: Arguments, _: Config) -> int:
    """Print a line for each problem and each remark. Return the exit status: 1 if there is a problem, else 0."""
    check, problems = _Check(arguments), 0
    with open_progress() as report:
        for finding in check.run(report):
            problems += finding.is_problem
            print(finding)
    looked_at = join_words(check.looked_at)
    if problems:
        print(f"{name_number(problems, 'problem')} in {looked_at}")
        return FAILED
    print(f"all is well: {looked_at}")
    return DONE
