"""What people are told by themselves: that a job is late, has failed or is well again, and that nobody dispatches."""
