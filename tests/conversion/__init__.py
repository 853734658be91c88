"""Tests of ``redbike/schedule/objects/``."""
