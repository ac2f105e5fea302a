"""A whole cluster in a simulated world, with faults: produce, consume, then hold what happened against the log."""
