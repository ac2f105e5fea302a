"""The broker: topics, groups, offsets, sends and pulls over a message store.

`server.BrokerServer` puts the rooms together; `wire` translates requests into calls of them and back.
"""

from gantrymq.broker.server import BrokerServer

__all__ = ["BrokerServer"]
