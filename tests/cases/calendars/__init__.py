"""Calendars as three programs write them, and when their events occur."""
