"""Delayed messages for GantryMQ, stored in a queue of their own until they are due."""
