"""Tests of ``redbike/serving/``."""
