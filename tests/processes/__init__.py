"""Tests of ``redbike/processes/``."""
