"""Typed headers of requests and responses, imported from the modules.

| module | content |
|---|---|
| `base` | mapping of headers to extFields, base classes |
| `send`, `pull` | sending; pulling and querying messages |
| `offsets` | queue offsets and consumer offsets |
| `clients` | heartbeats, unregistration, group members, requests from broker to client |
| `topics`, `groups` | administration of topics, of groups and of their consumption |
| `transactions` | end of transactions |
| `nameserver` | requests to and from the name server |
| `admin` | counters and maintenance of a broker |

Only headers that are read or written have a class; unsupported requests have none.
"""
