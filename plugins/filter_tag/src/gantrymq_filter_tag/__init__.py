"""Tag subscriptions for GantryMQ: the broker compares hashes, the client compares tags."""

from gantrymq_filter_tag.filter import TagFilter

__all__ = ["TagFilter"]
