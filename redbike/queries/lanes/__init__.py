"""The past, current and coming runs in a span of time, in a lane for each queue or each job."""
