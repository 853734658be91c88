"""Check the data in Redis, and repair it."""
