"""Schedules from elsewhere: today the rows of a CSV file."""
