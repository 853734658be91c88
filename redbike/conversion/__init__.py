"""What Python has for schedules, instants and time zones, as the texts and numbers that Redbike stores."""
