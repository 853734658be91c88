"""Tests of ``redbike/keeping/``."""
