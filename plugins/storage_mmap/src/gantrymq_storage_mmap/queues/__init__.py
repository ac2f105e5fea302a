"""Queues of log places, by topic and queue id."""
