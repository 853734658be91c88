"""Tests of ``redbike/worker/``."""
