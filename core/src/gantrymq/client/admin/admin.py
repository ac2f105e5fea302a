"""The facade: everything that may be asked of a cluster, and set in it."""

from __future__ import annotations

from gantrymq.client.admin.brokers import BrokerCalls
from gantrymq.client.admin.messages import MessageCalls
from gantrymq.client.admin.resets import ResetCalls

__all__ = ["Admin"]


class Admin(ResetCalls, MessageCalls, BrokerCalls):
    """Asks name servers and brokers; used as ``async with``, or as `gantrymq.client.Client.admin`.

    Calls whose first argument is an *address* ask that one broker, ip:port of a master (`masters` names them); calls
    with a `MessageQueue` ask the master of its broker; all others ask name servers, or every broker that it takes.
    Registers with no broker, so that nobody sees it as a member of a group.
    """
