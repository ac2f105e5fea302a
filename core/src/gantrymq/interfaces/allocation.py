"""Allocation: who of a group consumes which queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gantrymq.model.queue import MessageQueue


class AllocationStrategy(Protocol):
    """Every member computes the same answer from the same sorted inputs."""

    name: str

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Queues of *client_id*; both sequences are sorted. Empty when *client_id* is not among *client_ids*."""
