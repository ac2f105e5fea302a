"""A whole cluster in a simulated world with faults: produce, consume, then check the results against the log."""
