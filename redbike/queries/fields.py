"""The fields that lists have as CSV, as JSON and over HTTP, in their order: a name stays for ever."""

JOBS = ("jobid", "queue", "status", "since", "next_run", "paused", "last_started", "last_outcome", "schedule")
PAST_RUNS = ("jobid", "due", "started", "took", "outcome", "attempt", "error", "worker", "cpu", "memory")
QUEUES = ("queue", "waiting", "oldest_due", "in_flight", "paused", "at_once", "rate", "blackout")
WORKERS = ("id", "kind", "host", "pid", "queues", "state", "since", "seen", "jobs")
AGENDA = ("from", "queue", "runs", "jobs")
FAILURES = ("failed", "jobid", "outcome", "attempt", "due", "error", "owner", "note", "tags")
LOG = ("time", "who", "action", "jobid", "detail")
SHARDS = ("shard", "prefix", "server", "jobs", "waiting", "in_flight", "lag", "took", "problem")
TOKENS = ("name", "role", "jobs", "expires", "since", "by")
