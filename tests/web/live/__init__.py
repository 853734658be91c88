"""The page as people see it: in a browser, and kept up to date."""
