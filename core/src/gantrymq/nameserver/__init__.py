"""The name server: brokers register, clients ask where topics are.

`NameServer` is the server; `name_server_settings` its schema. `routes`, `registration`, `unregistration` and `topics`
are plain functions over `tables.RouteTables`, with time as an argument.
"""
