"""A prefix over several masters: its jobs are divided among shards, each of which is a store of its own."""
