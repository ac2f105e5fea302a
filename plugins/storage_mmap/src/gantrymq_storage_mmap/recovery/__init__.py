"""What a start does: find the log's end, bring queues in line with it."""
