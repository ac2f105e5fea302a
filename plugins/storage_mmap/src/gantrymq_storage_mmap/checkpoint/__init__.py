"""The checkpoint: the log offset up to which queues and index are durable, and how it moves."""
