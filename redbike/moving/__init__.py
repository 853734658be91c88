"""Read schedules from other sources: from the rows of a CSV file."""
