"""Writing plugins of one's own: `gantrymq plugin new`, and a broker that filters of any kind cannot harm."""
