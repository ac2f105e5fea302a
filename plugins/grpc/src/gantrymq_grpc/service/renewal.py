"""Renewal of the invisible time of messages that push consumers process: a state machine without I/O.

A push consumer does not say how long it needs for a message. So messages are delivered with a short invisible time,
which is renewed until the consumer answers, for three hours at most:

    renewal            1     2     3     4      5      6 and later
    extends it by    1 m   3 m   5 m   10 m   30 m   1 h                  from the time of the renewal

The unit is a pop: the messages that one receive delivered from one queue. They share a checkpoint, so that one record
renews those that are not acknowledged (`PopService.renew`), and their receipt handles stay valid. Messages of a lite
topic are renewed in the same way (`LiteService.renew`).

`due` returns what has to be renewed. The caller renews it, and reports the outcome with `renewed` or `failed`, unless
no message was left.

Source: apache/rocketmq proxy/.../service/receipt/DefaultReceiptHandleManager.java, common/RenewStrategyPolicy.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gantrymq.plugin.interfaces import PopAck

PERIOD_MS: Final = 5_000  # between two calls of `due`
AHEAD_MS: Final = 10_000  # a pop is renewed when less of its invisible time is left
LONGEST_MS: Final = 3 * 3600 * 1000  # after it was received
STEPS_MS: Final = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
GIVE_BACK_MS: Final = 1_000  # messages of a client that is gone
MOST_FAILURES: Final = 3


class _Client:
    """The kept pops of one client, by the period in which their invisible time ends."""

    __slots__ = ("client_id", "pops")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.pops: dict[int, list[KeptPop]] = {}


class KeptPop:
    """A pop that is renewed. Attributes are read-only for callers."""

    __slots__ = (
        "attempt",
        "client",
        "failures",
        "group",
        "handle",
        "lite_topic",
        "offset",
        "principal",
        "queue_id",
        "received_ms",
        "renewals",
        "topic",
    )

    def __init__(self, client: _Client, first: PopAck, attempt: int, received_ms: int, lite_topic: str) -> None:
        self.client = client
        self.group, self.topic, self.queue_id, self.offset, self.handle, self.principal = first
        self.attempt = attempt
        self.lite_topic = lite_topic
        self.received_ms = received_ms
        self.renewals = 0
        self.failures = 0

    @property
    def ack(self) -> PopAck:
        """One of its messages, for `PopService.renew`."""
        return PopAck(self.group, self.topic, self.queue_id, self.offset, self.handle, self.principal)


class Renewal(NamedTuple):
    """A pop to renew now."""

    pop: KeptPop
    invisible_ms: int  # from now
    last: bool = False  # its messages are given back: it is not kept any more


class Renewals:
    """The kept pops of one broker. Times are milliseconds of one clock, which must not go back."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._due: dict[int, dict[_Client, None]] = {}  # clients by the periods of their pops
        self._next = 0  # the first period that may have pops

    def __len__(self) -> int:
        """Return the number of kept pops, without those that are being renewed."""
        return sum(len(pops) for client in self._clients.values() for pops in client.pops.values())

    def keep(
        self, client_id: str, first: PopAck, attempt: int, now_ms: int, invisible_ms: int, lite_topic: str = ""
    ) -> None:
        """Renew the messages of a pop from now on.

        Args:
            client_id: the client that received them.
            first: any of its messages.
            attempt: number of the delivery of this message, from 1 on.
            now_ms: time of the pop.
            invisible_ms: its invisible time.
            lite_topic: the lite topic of its messages, empty for others.
        """
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = _Client(client_id)
        self._schedule(KeptPop(client, first, attempt, now_ms, lite_topic), now_ms + invisible_ms)

    def due(
        self, now_ms: int, most: int, is_alive: Callable[[str], bool], back_off: Callable[[str, int], int]
    ) -> list[Renewal]:
        """Return at most *most* pops to renew now; if there are *most*, more may be due.

        Args:
            now_ms: the time.
            most: bound of the result.
            is_alive: whether a client still sends heartbeats.
            back_off: invisible time (ms) of a message of a group after the given attempt.
        """
        found: list[Renewal] = []
        last = (now_ms + AHEAD_MS) // PERIOD_MS
        if not self._due:
            self._next = last + 1
        while self._next <= last and len(found) < most:
            clients = self._due.get(self._next)
            if not clients:
                self._next += 1
                continue
            client = next(iter(clients))
            pops = client.pops[self._next]
            found += [self._renewal(pops.pop(), now_ms, is_alive, back_off) for _ in range(min(most, len(pops)))]
            if not pops:
                self._remove(client, self._next)
        return found

    def _renewal(
        self, pop: KeptPop, now_ms: int, is_alive: Callable[[str], bool], back_off: Callable[[str, int], int]
    ) -> Renewal:
        if not is_alive(pop.client.client_id):
            return Renewal(pop, GIVE_BACK_MS, last=True)
        left_ms = pop.received_ms + LONGEST_MS - now_ms
        if left_ms <= AHEAD_MS:
            return Renewal(pop, max(left_ms, 0) + back_off(pop.group, pop.attempt), last=True)
        return Renewal(pop, min(STEPS_MS[min(pop.renewals, len(STEPS_MS) - 1)], left_ms))

    def renewed(self, renewal: Renewal, now_ms: int) -> Renewal | None:
        """Record that a renewal is stored and messages are left. Return how to give them back if the client is gone.

        Do not call it if no message is left, or for the last renewal of a pop.
        """
        pop = renewal.pop
        if self._clients.get(pop.client.client_id) is not pop.client:
            return Renewal(pop, GIVE_BACK_MS, last=True)
        pop.renewals += 1
        pop.failures = 0
        self._schedule(pop, now_ms + renewal.invisible_ms)
        return None

    def failed(self, renewal: Renewal, now_ms: int) -> bool:
        """Record that a renewal could not be stored. Return whether it is tried again in the next period."""
        pop = renewal.pop
        pop.failures += 1
        kept = self._clients.get(pop.client.client_id) is pop.client
        if renewal.last or not kept or pop.failures >= MOST_FAILURES:
            return False
        self._schedule(pop, now_ms + AHEAD_MS + PERIOD_MS)
        return True

    def client_gone(self, client_id: str) -> list[Renewal]:
        """Forget the pops of a client, and return how to give their messages back.

        Pops that are being renewed are returned by `renewed`.
        """
        client = self._clients.pop(client_id, None)
        if client is None:
            return []
        gone = [Renewal(pop, GIVE_BACK_MS, last=True) for pops in client.pops.values() for pop in pops]
        for period in list(client.pops):
            self._remove(client, period)
        return gone

    def _schedule(self, pop: KeptPop, visible_ms: int) -> None:
        period = max(visible_ms // PERIOD_MS, self._next)  # one that is already due is returned by the next call
        pops = pop.client.pops.get(period)
        if pops is None:
            pops = pop.client.pops[period] = []
            self._due.setdefault(period, {})[pop.client] = None
        pops.append(pop)

    def _remove(self, client: _Client, period: int) -> None:
        del client.pops[period]
        clients = self._due[period]
        del clients[client]
        if not clients:
            del self._due[period]
