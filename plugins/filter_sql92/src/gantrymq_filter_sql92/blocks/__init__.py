"""Block filters: which values of a property a block of queue entries has, so that a pull can skip the block."""
