"""The page, over HTTP."""
