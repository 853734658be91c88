"""The dispatcher: it moves due jobs to their queues, and brings lost runs back."""
