"""The dispatcher, what it shares with workers, and the policies: where a job goes when its run has ended."""
