"""Custom filters in a broker: found by name, timed, watched, and suspended if they fail."""
