"""Tag subscriptions: hash on the queue entry, text on the client."""
