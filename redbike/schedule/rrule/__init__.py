"""iCal recurrence (RFC 5545): from content lines to the instants at which they recur."""
