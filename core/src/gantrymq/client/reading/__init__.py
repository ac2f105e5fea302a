"""Reading without a group: pulls, offsets, readers, and the evaluation of expressions in the client."""
