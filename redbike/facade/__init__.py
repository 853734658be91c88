"""`Redbike` and `AsyncRedbike`, which users import, and what their methods return."""
