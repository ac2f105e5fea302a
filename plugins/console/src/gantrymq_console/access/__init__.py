"""Identity and permissions of visitors."""
