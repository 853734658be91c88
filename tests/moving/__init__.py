"""Tests of ``redbike/importers/``."""
