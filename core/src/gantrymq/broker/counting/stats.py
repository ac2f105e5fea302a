"""Counters of messages in and out since the start, with rates over the last seconds and minutes.

Each meter keeps its counter values at the last two midnights in local time. Both are 0 until the first midnight, so the
first day begins at the start.

A slave counts the messages that it copies in its total only, like RocketMQ's: by topic and for users they are counted
where they were sent.

Source of names and windows: apache/rocketmq store/.../StoreStatsService.java, broker/.../stats/BrokerStatsManager.java,
store/.../stats/BrokerStats.java (midnight values), store/.../DefaultMessageStore.java (doReput: the total of a slave).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from operator import itemgetter

from gantrymq.broker.counting.put_times import PutTimes
from gantrymq.broker.counting.sliding_sums import BYTES, MESSAGES, MINUTE, SlidingSums
from gantrymq.interfaces import DispatchEntry
from gantrymq.model.names import is_system_topic
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq.world import Clock

SAMPLE_S = 1.0  # StoreStatsService samples once a second
DAY_MS = 24 * 3600 * 1000
_topic_of, _size_of, _sys_flag_of = (
    itemgetter(DispatchEntry._fields.index(name)) for name in ("topic", "size", "sys_flag")
)
WINDOWS_S = (10, 60, 600)  # samples behind the three rates in StoreStatsService's figures


class Meter:
    """One key of sliding sums, with rates over short windows and its values at the last two midnights."""

    def __init__(
        self,
        tally: SlidingSums,
        key: str,
        by_topic: SlidingSums | None = None,
        is_own: Callable[[str], bool] = is_system_topic,
    ) -> None:
        """*by_topic*: the same counts by topic or topic@group; *is_own*: whether a topic belongs to the broker."""
        self._is_own = is_own
        self._tally = tally
        self._key = key
        self._by_topic = by_topic
        self.copied = 0  # messages of the total that are not in *by_topic*
        self.today_morning = 0  # `of_users` at the last midnight
        self.yesterday_morning = 0
        self._samples: deque[tuple[float, int]] = deque(maxlen=int(max(WINDOWS_S) / SAMPLE_S) + 1)

    @property
    def total(self) -> int:
        """Messages since the start."""
        return self._tally.total(self._key)[MESSAGES]

    @property
    def of_users(self) -> int:
        """Messages since the start without copied ones and the broker's own topics; takes about 2 us per topic."""
        if self._by_topic is None:
            return self.total
        own = [key for key in self._by_topic.known() if self._is_own(key.partition("@")[0])]
        return self.total - self.copied - sum(self._by_topic.total(key)[MESSAGES] for key in own)

    @property
    def bytes(self) -> int:
        """Bytes since the start."""
        return self._tally.total(self._key)[BYTES]

    def sample(self, now: float) -> None:
        """Sample the count at monotonic time *now*, s."""
        self._samples.append((now, self.total))

    def new_day(self, days: int) -> None:
        """Update the midnight values. *days* is greater than 1 if the clock jumped over days without counts."""
        now = self.of_users
        self.yesterday_morning = self.today_morning if days == 1 else now
        self.today_morning = now

    def rate(self, window_s: float) -> float:
        """Return the rate per second over the last *window_s* seconds, or since the start if that is shorter."""
        if len(self._samples) < 2:
            return 0.0
        last_at, last = self._samples[-1]
        first_at, first = self._samples[0]
        back = int(window_s / SAMPLE_S) + 1
        if back < len(self._samples):
            first_at, first = self._samples[-back]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    def rates(self) -> str:
        """Format the rates of the three windows like RocketMQ, separated by blanks."""
        return " ".join(repr(round(self.rate(window), 6)) for window in WINDOWS_S)


class Stats:
    """All counters of the broker."""

    def __init__(self, is_own: Callable[[str], bool] = is_system_topic) -> None:
        """*is_own*: whether a topic belongs to the broker; its messages are excluded from the counts for users."""
        self.puts = SlidingSums()  # by topic
        self.gets = SlidingSums()  # by topic@group
        self.sent_back = SlidingSums()  # by topic@group
        self.totals = SlidingSums()  # by meter
        self.put = Meter(self.totals, "put", self.puts, is_own)
        self.got = Meter(self.totals, "get", self.gets, is_own)  # delivered messages
        self.found = Meter(self.totals, "found")  # pulls with messages
        self.missed = Meter(self.totals, "missed")  # pulls without messages
        for key in ("put", "get", "found", "missed"):
            self.totals.add(key, 0, 0, 0)  # create the key now, because rates start when a key is created
        self.dead_letters: Counter[tuple[str, str]] = Counter()  # by topic and group
        self.counts_topics: Callable[[], bool] = lambda: True  # False on a slave: its master has counted the messages
        self.put_failed = 0
        self.put_times = PutTimes()
        self.longest_get_s = 0.0  # longest read of the store for one pull
        self.plugin_errors: Counter[tuple[str, str]] = Counter()  # exceptions by kind and name of the plugin's object
        self._day: int | None = None  # last argument of `today`

    def published(self, entries: Sequence[DispatchEntry]) -> None:
        """Count new messages."""
        if len(set(map(_topic_of, entries))) == 1 and not any(
            map(INNER_BATCH.__and__, set(map(_sys_flag_of, entries)))
        ):
            self._put(entries[0].topic, len(entries), sum(map(_size_of, entries)))
            return
        topic, count, size = "", 0, 0  # consecutive entries mostly have the same topic
        for entry in entries:
            if entry.topic != topic:
                self._put(topic, count, size)
                topic, count, size = entry.topic, 0, 0
            count += entry.messages if entry.sys_flag & INNER_BATCH else 1
            size += entry.size
        self._put(topic, count, size)

    def _put(self, topic: str, count: int, size: int) -> None:
        if count:
            self.totals.add("put", count, size, count)
            if self.counts_topics():
                self.puts.add(topic, count, size, count)
            else:
                self.put.copied += count

    def pulled(self, count: int, topic: str = "", group: str = "", size: int = 0) -> None:
        """Count one pull of *group* that returned *count* messages of *size* bytes."""
        if count:
            self.totals.add("get", count, size)
            self.totals.add("found", 1, 0)
            self.gets.add(f"{topic}@{group}", count, size)
        else:
            self.totals.add("missed", 1, 0)

    def got_in(self, seconds: float) -> None:
        """Record the duration of the store's read for one pull."""
        if seconds > self.longest_get_s:
            self.longest_get_s = seconds

    def plugin_failed(self, kind: str, name: str) -> None:
        """Count an exception of a plugin's object; *kind* is one word, such as ``gate``."""
        self.plugin_errors[kind, name] += 1

    def sample(self, now: float) -> None:
        """Sample all meters; called every SAMPLE_S."""
        for meter in (self.put, self.got, self.found, self.missed):
            meter.sample(now)
        for tally in (self.puts, self.gets, self.sent_back, self.totals):
            tally.tick(now)
        self.put_times.tick(now)

    def today(self, day: int) -> None:
        """Set the current day (`local_day`); called every SAMPLE_S. A clock set back does not start a day again."""
        if self._day is not None and day > self._day:
            for meter in (self.put, self.got):
                meter.new_day(day - self._day)
        self._day = day if self._day is None else max(day, self._day)

    def topic_put_tps(self, topic: str) -> float:
        """Return the messages per second stored in *topic* over the last minute."""
        return self.puts.over(topic, MINUTE).tps

    def topic_get_tps(self, topic: str) -> float:
        """Return the messages per second of *topic* delivered to all groups over the last minute."""
        return sum(self.gets.over(key, MINUTE).tps for key in self.gets.keys_of(topic))

    def group_get_tps(self, topic: str, group: str) -> float:
        """Return the messages per second of *topic* delivered to *group* over the last minute."""
        return self.gets.over(f"{topic}@{group}", MINUTE).tps

    def forget(self, topic: str) -> None:
        """Remove the counters of a deleted topic."""
        self.puts.forget(topic)
        self.gets.forget(topic)
        self.sent_back.forget(topic)
        for key in [key for key in self.dead_letters if key[0] == topic]:
            del self.dead_letters[key]

    def forget_group(self, group: str) -> None:
        """Remove the counters of a deleted group."""
        self.gets.forget_group(group)
        self.sent_back.forget_group(group)
        for key in [key for key in self.dead_letters if key[1] == group]:
            del self.dead_letters[key]


def local_day(clock: Clock) -> int:
    """Return the days since 1970-01-01 in this host's time zone."""
    now_ms = clock.now_ms()
    return (now_ms + clock.utc_offset_ms(now_ms)) // DAY_MS
