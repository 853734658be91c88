"""Tests of ``redbike/commands/``."""
