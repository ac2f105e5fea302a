"""What bytes on disk mean: pure functions over buffers, each layout written down once."""
