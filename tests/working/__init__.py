"""Tests of ``redbike/working/``."""
