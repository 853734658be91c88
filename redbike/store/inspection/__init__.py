"""Check what is in Redis: keys, records and places that contradict each other."""
