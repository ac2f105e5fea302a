"""Delayed messages for GantryMQ: they lie in a queue of their own until they are due."""
