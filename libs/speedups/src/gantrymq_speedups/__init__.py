"""Compiled versions of GantryMQ functions that run for every message, loaded by `gantrymq.speedups`."""
