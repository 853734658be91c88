"""Tests of ``redbike/conversion/``."""
