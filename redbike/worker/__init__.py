"""Workers: they take jobs, call the worker class, and say how that ended."""
