"""Tests of ``redbike/running/``."""
