"""``python -m redbike`` is the command ``redbike``."""

import sys

from redbike.cli import main

sys.exit(main())
