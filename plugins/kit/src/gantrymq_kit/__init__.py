"""Plugin development: `gantrymq plugin new`, and guards that protect the broker from custom filters."""
