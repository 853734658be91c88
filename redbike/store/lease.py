"""How long a worker may be silent before its runs count as lost, and by how much clocks and deadlines may differ."""

LEASE = 12.0  # seconds without a heartbeat after which a worker counts as dead
GRACE = 2.0  # seconds after its deadline in which a live worker says itself that a run is over
CLOCKS_DIFFER = 2.0  # seconds by which two readings of Redis' clock may differ
AHEAD = 60.0  # seconds by which a clock must have been ahead to be named: less is soon over
SLACK = 1.0  # seconds by which what was made from a deadline may differ from it
