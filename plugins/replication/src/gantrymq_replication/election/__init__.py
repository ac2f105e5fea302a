"""Elected roles: a broker of a set whose master an existing engine chooses, RocketMQ's controller or etcd.

| module | content |
|---|---|
| `machine` | the role: standings and times in, decisions out; fencing |
| `sync_set` | the in-sync set of a master: the confirm offset, and the slaves that enter and leave |
| `engine` | the interface of an engine |
| `controller`, `controller_headers`, `broker_id` | the engine on RocketMQ's controller; files with a broker's id |
| `etcd`, `etcd_client`, `etcd_access` | the engine on etcd; TLS and authentication |
| `engines` | the engine that the settings ask for |
| `runner`, `statistics` | runs a machine over an engine and a broker; counts elections |
| `epochs` | the epoch list of a log and its file |
| `auto_switch` | the HA protocol of elected roles without I/O |
| `service` | the broker in the election: roles, HA port, engine |
| `elected_log` | the log with its epochs and confirm offset |
| `serving`, `following` | connections of a master to its slaves, and of a slave to its master |
"""
