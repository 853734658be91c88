"""Brute force against the evaluators: run with ``python -m tests.exhaustive``."""
