"""Read schedules from other sources: CSV files, crontabs and calendars."""
