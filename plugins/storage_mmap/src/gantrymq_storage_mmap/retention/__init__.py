"""What is deleted, when, and in which order."""
