"""The index: log offsets by message key."""
