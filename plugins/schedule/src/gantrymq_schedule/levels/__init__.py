"""Delay levels: SCHEDULE_TOPIC_XXXX has a queue for each, in which messages are due in the order they came."""
