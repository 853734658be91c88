"""Tests of ``redbike/dispatcher/``."""
