"""``gantrymq pipeline``: a module for each job, and what they share."""
