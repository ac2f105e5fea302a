"""Where GantryMQ finds the command ``pipeline``."""
