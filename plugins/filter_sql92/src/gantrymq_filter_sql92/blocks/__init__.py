"""Bloom filters over blocks of queue entries: which stretches of a queue an expression need not read."""
