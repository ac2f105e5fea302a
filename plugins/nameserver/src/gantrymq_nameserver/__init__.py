"""The name server: brokers register, and clients look up the routes of topics.

`routes`, `registration`, `unregistration` and `topics` are plain functions over `tables.RouteTables`, with time as an
argument; `service` answers requests without a socket; `server` adds the port and timers. `kind` is registered with the
command line.
"""
