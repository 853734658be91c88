"""Mutants of the scripts that no test can catch, since they do what the script does."""

EQUIVALENT: set[str] = set()
