"""What the broker counts of itself."""
