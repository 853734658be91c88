"""Python's own objects, and those of dateutil and croniter, as schedules and instants."""
