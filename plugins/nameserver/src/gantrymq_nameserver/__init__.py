"""The name server: brokers register, clients ask where topics are.

`routes`, `registration`, `unregistration` and `topics` are plain functions over `tables.RouteTables`, with time as an
argument; `service` answers requests without a socket; `server` is the whole. `kind` is what the command line is given.
"""
