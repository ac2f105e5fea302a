"""One call to a server: options and accounts of a connection, ids, namespaces, and decoding of responses."""
