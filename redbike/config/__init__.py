"""Settings of processes, options of jobs, and limits of queues: their names, defaults and allowed values."""
