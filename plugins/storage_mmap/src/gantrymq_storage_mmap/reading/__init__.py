"""Gets: from a queue offset to the bytes of records."""
