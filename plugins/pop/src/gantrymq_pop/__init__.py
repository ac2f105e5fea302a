"""Pop consumption: the broker hands messages out, hides them, and gives back those that nobody acknowledged."""
