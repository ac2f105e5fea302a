"""Queue locks of ordered consumers.

A lock belongs to a client of a group and to its user, since two users may have one client id. It expires ``LOCK_MS``
after its last renewal, in monotonic time.

Source: apache/rocketmq broker/.../client/rebalance/RebalanceLockManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gantrymq.model.queue import MessageQueue

LOCK_MS = 60_000  # RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME; clients renew every 20 s


class _Owner(NamedTuple):
    client_id: str
    user: str  # empty without access control


class QueueLocks:
    """Locks by group and queue, with owner and time of the last renewal."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = monotonic_ms
        self._held: dict[str, dict[MessageQueue, tuple[_Owner, int]]] = {}
        self._looked_ms = monotonic_ms()

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], user: str = "") -> list[MessageQueue]:
        """Lock or renew *queues*. Return those that the client holds."""
        client = _Owner(client_id, user)
        now = self._now_ms()
        self._forget_lapsed(now)
        held = self._held.setdefault(group, {})
        granted = []
        for queue in queues:
            owner, since = held.get(queue, (client, now))
            if owner == client or now - since > LOCK_MS:
                held[queue] = (client, now)
                granted.append(queue)
        return granted

    def _forget_lapsed(self, now: int) -> None:
        """Remove expired locks, at most once in `LOCK_MS`, to free their memory."""
        if now - self._looked_ms <= LOCK_MS:
            return
        self._looked_ms = now
        tables = {
            group: {queue: lock for queue, lock in held.items() if now - lock[1] <= LOCK_MS}
            for group, held in self._held.items()
        }
        self._held = {group: held for group, held in tables.items() if held}

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue] | None = None, user: str = "") -> None:
        """Release *queues*, None: all, that the client holds; locks of other clients are kept."""
        held = self._held.get(group, {})
        for queue in list(held) if queues is None else queues:
            if queue in held and held[queue][0] == (client_id, user):
                del held[queue]
        if not held:
            self._held.pop(group, None)

    def forget(self, group: str) -> None:
        """Remove the locks of a deleted group."""
        self._held.pop(group, None)

    def forget_lapsed(self) -> None:
        """Remove groups without an unexpired lock."""
        self._held = {group: held for group, held in self._held.items() if self.any_held(group)}

    def any_held(self, group: str) -> bool:
        """Return whether a client of the group holds a lock, which means that the group consumes in order."""
        now = self._now_ms()
        return any(now - since <= LOCK_MS for _, since in self._held.get(group, {}).values())

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Return the client id of the owner of an unexpired lock, or None."""
        owner, since = self._held.get(group, {}).get(queue, (_Owner("", ""), 0))
        return owner.client_id if owner.client_id and self._now_ms() - since <= LOCK_MS else None
