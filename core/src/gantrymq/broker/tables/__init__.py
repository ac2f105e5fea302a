"""What a broker remembers of topics, groups and clients, and the files it is kept in."""
