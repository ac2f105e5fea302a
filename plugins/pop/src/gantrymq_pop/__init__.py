"""Pop consumption: the broker delivers messages, hides them, and redelivers those that are not acknowledged in time."""
