"""Tests of ``redbike/schedule/``."""
