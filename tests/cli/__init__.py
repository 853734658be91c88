"""Tests of ``redbike/cli/``."""
