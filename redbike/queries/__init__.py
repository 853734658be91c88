"""What only reads: health, metrics, the forecast, and what is known of runs and of a span of time."""
