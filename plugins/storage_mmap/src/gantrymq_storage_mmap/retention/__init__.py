"""Retention: deletion of expired log, queue and index files."""
