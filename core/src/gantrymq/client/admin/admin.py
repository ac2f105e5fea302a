"""The facade of administration."""

from __future__ import annotations

from gantrymq.client.admin.brokers import BrokerCalls
from gantrymq.client.admin.messages import MessageCalls
from gantrymq.client.admin.resets import ResetCalls

__all__ = ["Admin"]


class Admin(ResetCalls, MessageCalls, BrokerCalls):
    """Administers a cluster; used as ``async with``, or as `gantrymq.client.Client.admin`.

    Calls with an *address* as first argument query that broker, ip:port of a master (see `masters`); calls with a
    `MessageQueue` query the master of its broker; all others query name servers, or every broker involved. Does not
    register with brokers, so it is not visible as a member of a group.
    """
