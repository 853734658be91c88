"""Tests of ``redbike/connection/``."""
