"""The allocation strategy rendezvous: each queue goes to the member with the highest hash of member name and queue.

Every member computes the same answer without contacting the others. A member that leaves moves only its own queues,
a new one takes some from each. Shares are even only on average.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gantrymq.errors import ConfigError
from gantrymq.model.queue import MessageQueue


class Rendezvous:
    """An `AllocationStrategy`; all members of a group have to use the same settings."""

    name = "rendezvous"

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        """*settings* may have ``salt``, a text that changes the distribution.

        Raises:
            ConfigError: another key.
        """
        given = dict(settings or {})
        self._salt = given.pop("salt", "")
        if given:
            raise ConfigError(f"the strategy {self.name} knows the setting salt only, not {', '.join(sorted(given))}")

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of *client_id*, in the given order; empty if it is not among *client_ids*."""
        if client_id not in client_ids:
            return []
        return [queue for queue in queues if self._reader(queue, client_ids) == client_id]

    def _reader(self, queue: MessageQueue, client_ids: Sequence[str]) -> str:
        return max(client_ids, key=lambda client_id: (self._weight(queue, client_id), client_id))

    def _weight(self, queue: MessageQueue, client_id: str) -> bytes:
        # not hash(): it differs from process to process
        return hashlib.blake2b(f"{self._salt}\0{queue}\0{client_id}".encode(), digest_size=8).digest()
