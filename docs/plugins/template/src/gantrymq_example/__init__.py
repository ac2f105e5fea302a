"""A GantryMQ plugin to copy: a filter type, an allocation strategy and a dispatcher."""
