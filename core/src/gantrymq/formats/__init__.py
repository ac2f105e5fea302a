"""Binary and JSON formats of a store: pure functions over buffers, with one definition of each layout."""
