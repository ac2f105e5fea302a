"""``gantrymq pipeline``: one module for each job, and shared modules."""
