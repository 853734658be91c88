"""Tests of ``redbike/process/``."""
