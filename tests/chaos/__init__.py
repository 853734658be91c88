"""A farm of real processes under thousands of faults, and an oracle that says whether anything was lost.

Every due occurrence is enqueued exactly once, is run at least once or is counted as skipped, and none is lost
silently: that is the promise. Here is how it is tried, in the order in which one would read it:

1. `population` makes a few thousand jobs, `jobs` is their worker class: it notes the start and the end of each run.
2. `server` is a real Valkey, `proxy` stands before it, `farm` holds the dispatchers and the workers, and starts each
   again that ends; `clients` set, unset, stop, run and halt all the while.
   `group` is a master with Sentinels, or a cluster, in place of the one server; it has no proxy.
3. `faults` is a table of what can go wrong; ``python -m tests.chaos`` strikes with it at random instants. `takeovers`
   has what can go wrong with several servers.
4. `history` reads what all of them have noted, `expand` says by brute force when each job was due, `oracle` compares
   the two, `steering` knows what a pause, a cancellation and a limit forbid, `excuses` knows which faults explain a
   repeated run, and `report` prints the verdict.

All notes are lines in files that are only appended to, with times of the monotonic clock, which all processes of a
machine share and no fault changes. Nothing from `expand` on imports anything of Redbike.
"""
