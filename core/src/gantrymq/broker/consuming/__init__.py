"""Reading: pulls, filters, offsets, locks, and who waits for messages."""
