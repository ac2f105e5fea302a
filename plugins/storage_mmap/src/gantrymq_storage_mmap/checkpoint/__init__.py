"""Checkpoints: the log offset up to which queues and index are durable."""
