"""Alerts: messages to people that a job is late, has failed or is well again, or that no dispatcher runs."""
