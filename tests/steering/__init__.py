"""Tests of ``redbike/steering/``."""
