"""Queries to the cluster for pages, without HTTP. Results are attrs objects; numbers of 64 bits are `Long`."""
