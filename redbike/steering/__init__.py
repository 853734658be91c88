"""What operators do to jobs and queues that exist: one module for each family of verbs."""
