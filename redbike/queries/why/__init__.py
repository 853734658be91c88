"""Why a job does not run now, or did not run at a past instant: one sentence, from all stored data.

The conditions of a run are checked in this order: the job itself, its pause, its queue, the workers of this queue, and
last the dispatcher. The sentence names the first condition that fails.
"""
