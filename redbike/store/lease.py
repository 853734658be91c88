"""How long a worker may be silent before its runs count as lost, and by how much clocks and deadlines may differ."""

LEASE = 12.0  # seconds without a heartbeat after which a worker counts as dead
GRACE = 2.0  # seconds after the deadline of a run in which a live worker itself ends it
CLOCKS_DIFFER = 2.0  # seconds by which two readings of Redis' clock may differ
AHEAD = 60.0  # seconds by which a clock must be ahead before that is reported: less is soon over
SLACK = 1.0  # seconds by which a time that was computed from a deadline may differ from it
