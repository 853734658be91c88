"""BullMQ: one node process with 100 jobs at once; finished jobs are removed. ``bullmq.cjs`` does all the work."""

import os
import shutil
import sys
from pathlib import Path

MODULES = Path(sys.prefix) / "node_modules"


def run(verb: str, *arguments: str) -> None:
    """Become the node process that does `verb`. Raises `ModuleNotFoundError` if it cannot."""
    node = shutil.which("node")
    if node is None or not (MODULES / "bullmq").exists():
        raise ModuleNotFoundError(f"no {'module bullmq' if node else 'node'}")
    script = str(Path(__file__).with_suffix(".cjs"))
    os.execve(node, [node, script, verb, *arguments], os.environ | {"NODE_PATH": str(MODULES)})
