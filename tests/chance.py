"""Whether tests with random data have other data each time."""

import os

# Otherwise a change would be refused for what it has not done. With REDBIKE_RANDOM=1 they look for more.
ALWAYS_THE_SAME = "REDBIKE_RANDOM" not in os.environ
