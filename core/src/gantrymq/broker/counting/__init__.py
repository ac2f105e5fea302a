"""Counters and rates of the broker."""
