"""Allocation of queues to the members of a consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gantrymq.model.queue import MessageQueue


class AllocationStrategy(Protocol):
    """Strategy that assigns queues to members.

    Each member computes its own share, so equal inputs must give the same assignment on every member.
    `gantrymq_testing.AllocationContract` checks the rules of this interface.
    """

    name: str  # as registered

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of *client_id* as a new list, empty if it is not in *client_ids* or there are no queues.

        Args:
            group: the consumer group.
            client_id: the member to compute the share for.
            queues: readable queues of one topic, sorted.
            client_ids: all members, sorted; an id with two connections to the broker is listed twice.

        Raises:
            GantryError: the names do not fit the strategy's settings; the member keeps its current queues.
        """
