"""The index: from a key to places of the log."""
