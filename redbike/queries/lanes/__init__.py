"""What ran, runs and will run in a span of time, in a lane for each queue or each job."""
