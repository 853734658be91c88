"""Workers: they take jobs, call the worker class, and report how runs have ended."""
