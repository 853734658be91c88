"""Tests of ``redbike/state/``."""
