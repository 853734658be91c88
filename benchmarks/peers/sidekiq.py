"""Sidekiq: one ruby process with ten threads. ``sidekiq.rb`` does all the work."""

import os
import shutil
import subprocess
from pathlib import Path


def run(verb: str, *arguments: str) -> None:
    """Become the ruby process that does `verb`. Raises `ModuleNotFoundError` if it cannot."""
    ruby = shutil.which("ruby")
    if ruby is None or subprocess.run([ruby, "-e", "require 'sidekiq'"], capture_output=True, check=False).returncode:
        raise ModuleNotFoundError(f"no {'module sidekiq' if ruby else 'ruby'}")
    os.execv(ruby, [ruby, str(Path(__file__).with_suffix(".rb")), verb, *arguments])
