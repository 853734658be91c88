"""Why a job does not run now, or did not run at an instant that is past: one sentence, from all that is kept.

What a job depends on is asked in the order in which it would have to give way: the job itself, its pause, its queue,
the workers of that, and last the dispatcher. The first thing that stands in the way is what the sentence tells.
"""
