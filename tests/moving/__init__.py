"""Tests of ``redbike/moving/``."""
