"""Tables of topics, groups, offsets and clients, and their files."""
