"""Tests of ``redbike/store/inspection/``."""
