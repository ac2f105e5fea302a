"""Counters: messages in and out since the start, and rates over the last seconds and minutes.

Two marks a meter say what it had counted when today and yesterday began, in local time; both are 0 until the first
midnight, so that the first day begins at the start.

Source of names and windows: apache/rocketmq store/.../StoreStatsService.java, broker/.../stats/BrokerStatsManager.java,
store/.../stats/BrokerStats.java (the marks).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from gantrymq.broker.counting.put_times import PutTimes
from gantrymq.broker.counting.sliding_sums import BYTES, MESSAGES, MINUTE, SlidingSums
from gantrymq.interfaces import DispatchEntry
from gantrymq.model.names import is_system_topic
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq.world import Clock

SAMPLE_S = 1.0
DAY_MS = 24 * 3600 * 1000
WINDOWS_S = (10, 60, 600)


class Meter:
    """One key of a tally, with its rate over the last seconds and what it was when the day began."""

    def __init__(
        self,
        tally: SlidingSums,
        key: str,
        by_topic: SlidingSums | None = None,
        is_own: Callable[[str], bool] = is_system_topic,
    ) -> None:
        """*by_topic*: the same by topic, or by topic@group; *is_own*: whether a topic is the broker's own."""
        self._is_own = is_own
        self._tally = tally
        self._key = key
        self._by_topic = by_topic
        self.today_morning = 0  # `of_users` when this day began
        self.yesterday_morning = 0
        self._samples: deque[tuple[float, int]] = deque(maxlen=int(max(WINDOWS_S) / SAMPLE_S) + 1)

    @property
    def total(self) -> int:
        """How many since the start."""
        return self._tally.total(self._key)[MESSAGES]

    @property
    def of_users(self) -> int:
        """How many of the total were not of the broker's own topics; about 2 us a topic."""
        if self._by_topic is None:
            return self.total
        own = [key for key in self._by_topic.known() if self._is_own(key.partition("@")[0])]
        return self.total - sum(self._by_topic.total(key)[MESSAGES] for key in own)

    @property
    def bytes(self) -> int:
        """How many bytes since the start."""
        return self._tally.total(self._key)[BYTES]

    def sample(self, now: float) -> None:
        """Note the count at monotonic time *now*, s."""
        self._samples.append((now, self.total))

    def new_day(self, days: int) -> None:
        """Move the marks; *days* is 1 unless the clock stood still or jumped over whole days, which counted nothing."""
        now = self.of_users
        self.yesterday_morning = self.today_morning if days == 1 else now
        self.today_morning = now

    def rate(self, window_s: float) -> float:
        """Counts a second over the last *window_s* seconds, or over the time since the start if that is shorter."""
        if len(self._samples) < 2:
            return 0.0
        last_at, last = self._samples[-1]
        first_at, first = self._samples[0]
        back = int(window_s / SAMPLE_S) + 1
        if back < len(self._samples):
            first_at, first = self._samples[-back]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    def rates(self) -> str:
        """The three windows as RocketMQ prints them, separated by blanks."""
        return " ".join(repr(round(self.rate(window), 6)) for window in WINDOWS_S)


class Stats:
    """What the broker counts of itself."""

    def __init__(self, is_own: Callable[[str], bool] = is_system_topic) -> None:
        """*is_own*: whether a topic is the broker's own, whose messages no figure for users counts."""
        self.puts = SlidingSums()  # by topic
        self.gets = SlidingSums()  # by topic@group
        self.sent_back = SlidingSums()  # by topic@group
        self.totals = SlidingSums()  # by what the meters show
        self.put = Meter(self.totals, "put", self.puts, is_own)
        self.got = Meter(self.totals, "get", self.gets, is_own)  # messages handed out
        self.found = Meter(self.totals, "found")  # pulls that found something
        self.missed = Meter(self.totals, "missed")
        for key in ("put", "get", "found", "missed"):
            self.totals.add(key, 0, 0, 0)  # known from the start: rates are over the time since then
        self.dead_letters: Counter[tuple[str, str]] = Counter()  # made, by topic and group
        self.put_failed = 0
        self.put_times = PutTimes()
        self.longest_get_s = 0.0  # that the store took for one pull
        self.plugin_errors: Counter[tuple[str, str]] = Counter()  # by kind and name of what raised
        self._day: int | None = None  # as of `today`

    def published(self, entries: Sequence[DispatchEntry]) -> None:
        """Count new messages."""
        topic, count, size = "", 0, 0  # neighbours mostly share their topic
        for entry in entries:
            if entry.topic != topic:
                self._put(topic, count, size)
                topic, count, size = entry.topic, 0, 0
            count += entry.messages if entry.sys_flag & INNER_BATCH else 1
            size += entry.size
        self._put(topic, count, size)

    def _put(self, topic: str, count: int, size: int) -> None:
        if count:
            self.puts.add(topic, count, size, count)
            self.totals.add("put", count, size, count)

    def pulled(self, count: int, topic: str = "", group: str = "", size: int = 0) -> None:
        """Count one pull of *group* that found *count* messages of *size* bytes."""
        if count:
            self.totals.add("get", count, size)
            self.totals.add("found", 1, 0)
            self.gets.add(f"{topic}@{group}", count, size)
        else:
            self.totals.add("missed", 1, 0)

    def got_in(self, seconds: float) -> None:
        """Note what the store took for one pull, whatever it found."""
        if seconds > self.longest_get_s:
            self.longest_get_s = seconds

    def plugin_failed(self, kind: str, name: str) -> None:
        """Count something of a plugin that raised; *kind* is one word, such as ``gate``."""
        self.plugin_errors[kind, name] += 1

    def sample(self, now: float) -> None:
        """Take a sample; called every SAMPLE_S."""
        for meter in (self.put, self.got, self.found, self.missed):
            meter.sample(now)
        for tally in (self.puts, self.gets, self.sent_back, self.totals):
            tally.tick(now)
        self.put_times.tick(now)

    def today(self, day: int) -> None:
        """Hear which day it is (`local_day`), every SAMPLE_S; a clock that is set back begins no day again."""
        if self._day is not None and day > self._day:
            for meter in (self.put, self.got):
                meter.new_day(day - self._day)
        self._day = day if self._day is None else max(day, self._day)

    def topic_put_tps(self, topic: str) -> float:
        """Messages a second into *topic* over the last minute."""
        return self.puts.over(topic, MINUTE).tps

    def group_get_tps(self, topic: str, group: str) -> float:
        """Messages a second of *topic* handed to *group* over the last minute."""
        return self.gets.over(f"{topic}@{group}", MINUTE).tps

    def forget(self, topic: str) -> None:
        """Drop the counts of a deleted topic."""
        self.puts.forget(topic)
        self.gets.forget(topic)
        self.sent_back.forget(topic)
        for key in [key for key in self.dead_letters if key[0] == topic]:
            del self.dead_letters[key]

    def forget_group(self, group: str) -> None:
        """Drop the counts of a deleted group."""
        self.gets.forget_group(group)
        self.sent_back.forget_group(group)
        for key in [key for key in self.dead_letters if key[1] == group]:
            del self.dead_letters[key]


def local_day(clock: Clock) -> int:
    """Days since 1970-01-01 on the calendar of this host's time zone; grows at local midnight."""
    now_ms = clock.now_ms()
    return (now_ms + clock.utc_offset_ms(now_ms)) // DAY_MS
