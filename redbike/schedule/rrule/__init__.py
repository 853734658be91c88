"""Parse iCal recurrence (RFC 5545), and compute its instants."""
