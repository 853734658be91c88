"""What people do to jobs and queues: set, sync, pause, cancel, limit, run, repair."""
