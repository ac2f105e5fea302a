"""Allocation: who of a group consumes which queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gantrymq.model.queue import MessageQueue


class AllocationStrategy(Protocol):
    """Every member computes its own share, so all of them must come to the same plan from the same inputs.

    `gantrymq_testing.AllocationContract` checks what is promised here.
    """

    name: str  # as it is registered

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of *client_id*, as a new list; empty when it is not among *client_ids*, or without queues.

        Args:
            group: the consumer group.
            client_id: the member whose share is wanted.
            queues: readable queues of one topic, sorted.
            client_ids: all members, sorted; a broker that knows two connections of one id lists it twice.

        Raises:
            GantryError: the names do not fit the strategy's settings; the member keeps what it had.
        """
