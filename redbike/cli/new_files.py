"""Write new files into a folder, all of them or none."""

import os
import tempfile
from collections.abc import Mapping

from redbike.errors import BadConfig, RedbikeError


def write_files(folder: str, files: Mapping[str, str], may_replace: bool, is_private: bool) -> None:
    """Write the texts of `files` under their names into `folder`, which is made if needed.

    If they are private, only this user may read them. Raise `BadConfig` before anything is written if there is such a
    file, unless `may_replace`.
    """
    there = [path for name in files if os.path.lexists(path := os.path.join(folder, name))]
    if there and not may_replace:
        raise BadConfig(f"{there[0]!r} is there already: take another --out, or --force to replace it")
    try:
        os.makedirs(folder, exist_ok=True)
        # First all of them aside: a full disk is noticed before anything is replaced.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".redbike-import-") as aside:
            for name, text in files.items():
                with open(os.path.join(aside, name), "w", encoding="utf-8", newline="") as file:
                    if is_private:
                        os.fchmod(file.fileno(), 0o600)
                    file.write(text)
            for name in files:
                os.replace(os.path.join(aside, name), os.path.join(folder, name))
    except OSError as error:
        raise RedbikeError(f"cannot write to {folder!r}: {error.strerror or error}") from None
