"""Tests of ``redbike/control/``."""
