"""Filters of any kind at work in a broker: found by name, timed, watched, and suspended where they fail."""
