"""Recovery at startup: find the log's end, and make the queues consistent with it."""
