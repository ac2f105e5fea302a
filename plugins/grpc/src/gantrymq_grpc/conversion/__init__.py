"""Translation between the protocol's messages and the broker's: no I/O, no state."""
