"""The broker: topics, groups, offsets, sends and pulls over a message store.

`server.BrokerServer` opens and closes what `parts.Parts` holds; `sending` and `consuming` are its operations, and
`wire` translates requests into calls of them and back.
"""

from gantrymq.broker.server import BrokerServer

__all__ = ["BrokerServer"]
