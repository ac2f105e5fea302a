"""Shared parts of the durability tests: broker processes, a load with a ledger, a watched broker in process."""
