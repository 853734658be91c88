"""Whether the data in Redis is sound, and its repair."""
