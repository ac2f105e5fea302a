"""How the messages of a topic are spread over its brokers and queues, and which queues have far more or fewer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from gantrymq.client.admin import QueueStats
from gantrymq.plugin.model import MessageQueue
from gantrymq_console.values import Long, optional_long

MOST: Final = 512  # bars on a page
_ALL_OPEN: Final = 64  # bars; of more, only the brokers with uneven queues are unfolded
_UNEVEN: Final = 2.0  # times the average, or the average is as many times as much
_LEAST_AVERAGE: Final = 20  # messages in a queue, below which chance makes queues uneven


@attrs.frozen
class QueueShare:
    """One queue."""

    queue: int
    messages: Long = attrs.field(converter=Long)
    percent: float  # of the fullest queue of the topic
    times: float | None  # how many times the average it has, if that is far more or fewer; None: it is not


@attrs.frozen
class BrokerShare:
    """The queues of a topic at one broker; None: it did not report."""

    broker: str
    messages: Long | None = attrs.field(converter=optional_long)
    percent: float | None  # of the messages of all brokers that answered
    in_per_s: float | None
    queues: tuple[QueueShare, ...]
    unfolded: bool

    @property
    def uneven(self) -> int:
        """Number of queues with far more or fewer messages than the average."""
        return sum(1 for each in self.queues if each.times is not None)


@attrs.frozen
class TopicShares:
    """All brokers of a topic."""

    brokers: tuple[BrokerShare, ...]
    more: int  # queues without a bar

    @property
    def most_per_s(self) -> float:
        """The highest rate of a broker."""
        return max((each.in_per_s or 0.0 for each in self.brokers), default=0.0)


def shares_of(
    brokers: Iterable[str], stats: Mapping[MessageQueue, QueueStats], rates: Mapping[str, float]
) -> TopicShares:
    """Return the shares of a topic's brokers; those that are in neither *stats* nor *rates* did not report."""
    counts: dict[str, dict[int, int]] = {}
    for queue, each in stats.items():
        counts.setdefault(queue.broker_name, {})[queue.queue_id] = each.count
    every = [count for of_broker in counts.values() for count in of_broker.values()]
    total, most = sum(every), max(every, default=0)
    average = total / len(every) if every else 0.0
    left, shown = MOST, []
    for broker in sorted({*brokers, *counts}):
        of_broker = counts.get(broker)
        queues = [
            QueueShare(queue, count, round(100 * count / most, 2) if most else 0.0, _times(count, average))
            for queue, count in sorted((of_broker or {}).items())
        ]
        messages = sum(of_broker.values()) if of_broker is not None else None
        percent = 100 * messages / total if messages is not None and total else None
        unfolded = len(every) <= _ALL_OPEN or any(each.times is not None for each in queues)
        shown.append(BrokerShare(broker, messages, percent, rates.get(broker), tuple(queues[:left]), unfolded))
        left -= min(left, len(queues))
    return TopicShares(tuple(shown), max(0, len(every) - MOST))


def _times(count: int, average: float) -> float | None:
    if average < _LEAST_AVERAGE or average / _UNEVEN <= count <= average * _UNEVEN:
        return None
    return count / average
