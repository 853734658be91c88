"""Thousands of faults, and whether anything was lost.

Usage:
  chaos [options]
  chaos [options] judge <FOLDER>

``chaos`` is ``python -m tests.chaos``. The first runs a farm under faults and judges it; the second judges again what a
run has left in its folder.

Options:
  --seed=<N>          Of which faults strike when [default: 1].
  --faults=<N>        How many [default: 2000].
  --minutes=<M>       For how long they strike; settling down and judging take another one [default: 8].
  --fsync=<POLICY>    When the append-only file of one server is synchronised: everysec or always; of several,
                      always [default: everysec].
  --servers=<KIND>    one, or sentinel: a master, two replicas and three Sentinels, or cluster: three masters, each
                      with a replica [default: one].
  --shards=<N>        Among how many shards the jobs are divided [default: 1].
  --move=<N>          When all are stopped in the end, move the jobs to that many shards, and back, by a command that is
                      killed again and again; of a cluster, a master is killed as often. What is judged is what is
                      there then.
  --jobs=<N>          Jobs that no client touches [default: 2500].
  --dispatchers=<N>   Dispatcher processes [default: 3].
  --workers=<N>       Worker processes [default: 8].
  --only=<KINDS>      These kinds of faults alone, with commas between.
  --without=<KINDS>   All kinds but these.
  --folder=<FOLDER>   Keep everything there; without it, a temporary folder, which is kept when something is wrong.
  --json=<FILE>       Write the verdict there too.
  --steer             Clients also pause, resume, cancel and run jobs and change their options; they limit and pause a
                      queue.

Exit status: 0 all is well, 1 something is wrong, 2 bad usage.
"""

import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from docopt import docopt

from tests.chaos.faults import KINDS
from tests.chaos.history import read
from tests.chaos.oracle import judge
from tests.chaos.report import failures, summary, table
from tests.chaos.run import Run


def chosen(servers: str, only: str | None, without: str | None) -> list[str]:
    """The kinds of faults that are asked for."""
    if servers not in KINDS:
        sys.exit(f"no kind of servers: {servers!r}; there are {', '.join(KINDS)}")
    kinds = KINDS[servers]
    for kind in ",".join(filter(None, (only, without))).split(","):
        if kind and kind not in kinds:
            sys.exit(f"no kind of fault: {kind!r}; there are {', '.join(kinds)}")
    left_out = (without or "").split(",")
    return [kind for kind in kinds if kind not in left_out and (only is None or kind in only.split(","))]


def main(arguments: dict[str, Any]) -> int:
    """Run, or only judge."""
    if arguments["judge"]:
        folder, kept = Path(arguments["<FOLDER>"]), True
    else:
        kept = arguments["--folder"] is not None
        folder = Path(arguments["--folder"] or tempfile.mkdtemp(prefix="redbike-chaos-"))
        # So that it ends what it has started, whoever ends it.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            sys.exit(f"the folder {str(folder)!r} is not empty")
        kinds = chosen(arguments["--servers"], arguments["--only"], arguments["--without"])
        Run(folder, arguments, kinds).run()
    history = read(folder)
    found = summary(history, judge(history))
    print(table(found))
    if arguments["--json"]:
        Path(arguments["--json"]).write_text(json.dumps(found, indent=1))
    wrong = failures(found)
    if wrong:
        print(f"\nWRONG: {'; '.join(wrong)}. All notes are in {folder}.")
    elif not kept:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(docopt(__doc__)))
