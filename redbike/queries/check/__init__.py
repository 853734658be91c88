"""``redbike check``: find problems before, or while, jobs run. Nothing here changes anything."""
