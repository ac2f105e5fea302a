"""Latency of puts for RocketMQ's runtime information: the maximum, and the distribution over the last minute.

All messages of a batch count with the batch's time from append to acknowledgement, in whole milliseconds. The
distribution is that of the last whole minute; all counts are 0 during the first minute.

    ranges      <=0, -10, -50, -100, -200, -500 ms, -1, -2, -3, -4, -5, -10 s, more
    percentile  steps of 1 ms up to 20, of 2 up to 50, 5 (100), 10 (200), 50 (500), 100 (1000), 1000 (10,000); linear
                interpolation within a step

Source: apache/rocketmq store/.../StoreStatsService.java (setPutMessageEntireTimeMax, findPutMessageEntireTimePX).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

_SPREAD = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
_SPREAD_FROM_MS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_STEPS_MS = (
    *range(1, 21),
    *range(22, 51, 2),
    *range(55, 101, 5),
    *range(110, 201, 10),
    *range(250, 501, 50),
    *range(600, 1001, 100),
    *range(2000, 10_001, 1000),
)
MINUTE_S = 60.0


class PutTimes:
    """Latencies of batches; `tick` advances the time."""

    def __init__(self) -> None:
        self.max_ms = 0  # since the start
        self._open: dict[int, int] = {}  # messages by ms, current minute
        self._last: dict[int, int] = {}  # messages by ms, last whole minute
        self._began: float | None = None

    def acknowledged(self, messages: int, seconds: float) -> None:
        """Count one batch."""
        ms = int(seconds * 1000)
        self._open[ms] = self._open.get(ms, 0) + messages
        if ms > self.max_ms:
            self.max_ms = ms

    def tick(self, now: float) -> None:
        """End the current minute if it is over; called every second with the monotonic time, s."""
        if self._began is None:
            self._began = now
        elif now - self._began >= MINUTE_S:
            self._began, self._last, self._open = now, self._open, {}

    def spread(self) -> str:
        """Format putMessageDistributeTime: each range with its count and a blank."""
        counts = [0] * len(_SPREAD)
        for ms, messages in self._last.items():
            counts[bisect_right(_SPREAD_FROM_MS, ms)] += messages
        return "".join(f"{name}:{count} " for name, count in zip(_SPREAD, counts, strict=True))

    def percentile(self, share: float) -> float:
        """Return the latency in ms that *share* (0 to 1) of the puts did not exceed; 0 without puts."""
        counts = [0] * (len(_STEPS_MS) + 1)
        for ms, messages in self._last.items():
            counts[bisect_left(_STEPS_MS, ms)] += messages
        wanted, below = int(sum(counts) * share), 0
        bounds = (*_STEPS_MS, max(_STEPS_MS[-1], *self._last, 0))  # Java's last step is unbounded
        for index, count in enumerate(counts):
            if wanted <= below + count:
                start = bounds[index - 1] if index else 0
                return start + (bounds[index] - start) * (wanted - below) / count if count else float(start)
            below += count
        return float(bounds[-1])
