"""``redbike check``: is everything as it should be before, or while, jobs run? Nothing here changes anything."""
