"""``python -m redbike`` is the command ``redbike``.

`up` and `work` run this file by its path. So their children import the package of their parent, and a file in the
current folder with the name of a module of ours or of Python's is never imported instead.
"""

import importlib.util
import sys
from pathlib import Path

if __name__ == "__main__":
    if not __package__:
        place = Path(__file__).parent
        spec = importlib.util.spec_from_file_location("redbike", place / "__init__.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["redbike"] = package = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)

    from redbike.cli.entry import main

    sys.exit(main())
