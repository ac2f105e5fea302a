"""Pulls, filters, committed offsets, heartbeats, and waiting for messages."""
