"""What is in Redis: its keys and records, and the one script for each transition."""
