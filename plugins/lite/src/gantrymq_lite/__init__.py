"""Lite topics (RIP-83): many small topics below a parent topic, to which consumers subscribe one by one."""
