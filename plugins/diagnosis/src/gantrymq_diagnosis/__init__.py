"""Conflicts within consumer groups, and why a group gets nothing."""
