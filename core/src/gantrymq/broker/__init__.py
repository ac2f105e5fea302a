"""The broker: topics, groups, offsets, sends and pulls over a message store.

`server.BrokerServer` opens and closes the components in `parts.Parts`. `sending` and `consuming` contain the
operations; `wire` translates requests into calls of these operations, and results into responses.
"""

from gantrymq.broker.server import BrokerServer

__all__ = ["BrokerServer"]
