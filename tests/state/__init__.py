"""Tests of ``redbike/store/``."""
