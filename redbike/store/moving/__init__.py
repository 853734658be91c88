"""Jobs that move to another number of shards: where each key, and each part of it, goes."""
