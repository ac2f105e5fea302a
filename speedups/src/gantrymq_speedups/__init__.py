"""Compiled twins of the functions of GantryMQ that run for every message; `gantrymq.speedups` finds and uses them."""
