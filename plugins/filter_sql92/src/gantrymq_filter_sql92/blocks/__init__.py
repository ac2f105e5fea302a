"""Bloom filters over blocks of queue entries: ranges of a queue that an expression can skip."""
