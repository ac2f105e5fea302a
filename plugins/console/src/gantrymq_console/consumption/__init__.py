"""Which consumer groups consumed a message, with the evidence for each verdict."""
