"""Negative controls: bugs that are planted on purpose, each of which the tests must catch."""
