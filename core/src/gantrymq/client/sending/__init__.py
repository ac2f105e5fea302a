"""From a message to stored copies: validation, encoding, queue selection, retries, and the send window."""
