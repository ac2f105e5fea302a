"""Typed headers of requests and answers; callers import from the module.

| module | what |
|---|---|
| `base` | how a header maps to extFields, and what every header builds on |
| `send`, `pull` | sending; pulling and looking messages up |
| `offsets` | queue offsets and consumer progress |
| `clients` | heartbeats, leaving, members, what a broker asks of a client |
| `topics`, `groups` | what tools ask about topics, and about groups and consumption |
| `transactions` | how a transaction ends |
| `nameserver` | requests to and from the name server |
| `admin` | counters and maintenance of a broker |

A class is here when something reads or writes it; requests that nothing answers have none.
"""
