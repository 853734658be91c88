"""Short texts: durations, names of time zones, the version, and text that is safe to print."""
