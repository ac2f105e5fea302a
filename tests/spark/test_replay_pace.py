"""When messages are sent again, on a virtual clock and without Spark."""

import pytest

from gantrymq.errors import ConfigError
from gantrymq_spark.jobs.replay_send import Pace, Sent, read_speed, send_paced
from gantrymq_spark.sink.options import read_options
from gantrymq_spark.sink.rows import RowConverter
from gantrymq_testing.simulated import simulate

OPTIONS = read_options({"namesrv": "n:1", "topic": "T", "idColumn": "sinkId"}, streaming=False, environ={})


@pytest.mark.parametrize(("text", "speed"), [("1x", 1), ("10X", 10), (" 0.5x ", 0.5), ("max", None)])
def test_speeds(text, speed):
    assert read_speed(text) == speed


@pytest.mark.parametrize("text", ["", "x", "0x", "-1x", "10", "fast", "1e3x", "0.0001x", "999999x"])
def test_what_is_no_speed(text):
    with pytest.raises(ConfigError, match="write 1x, 10x, another number"):
        read_speed(text)


class Noting:
    """Takes messages, and a while for it."""

    def __init__(self, clock, takes_s=0.0, fails_at=None):
        self.clock, self.takes_s, self.fails_at = clock, takes_s, fails_at
        self.sent = []

    async def send(self, messages):
        if len(self.sent) == self.fails_at:
            raise ConnectionError
        self.sent.append((self.clock.monotonic(), [each.message.body for each in messages]))
        if self.takes_s:
            await self.clock.sleep(self.takes_s)


def rows_to_replay(times_ms, speed, **how):
    rows = [{"storedMs": at, "sinkId": str(at), "body": b"%d" % n} for n, at in enumerate(times_ms)]
    sent = Sent()

    async def work(world):
        begun, sender = world.clock.monotonic(), Noting(world.clock, **how)
        try:
            await send_paced(rows, RowConverter(OPTIONS, "t", ""), sender, Pace(speed), world.clock, sent)
        except ConnectionError:
            assert "fails_at" in how
        return [(round(at - begun, 3), [int(body) for body in bodies]) for at, bodies in sender.sent]

    return simulate(1, work), sent


TIMES = [1000, 1000, 1500, 3000, 11_000]


@pytest.mark.parametrize("speed", [1, 10, 0.5])
def test_distances_are_those_of_the_store_divided_by_the_speed(speed):
    found, sent = rows_to_replay(TIMES, speed)
    assert found == [(at / speed, numbers) for at, numbers in ((0, [0, 1]), (0.5, [2]), (2, [3]), (10, [4]))]
    assert (sent.messages, sent.body_bytes, sent.first_ms, sent.last_ms) == (5, 5, 1000, 11_000)


def test_what_is_late_goes_at_once_and_what_comes_later_at_its_time():
    found, _ = rows_to_replay(TIMES, 1, takes_s=1.2)
    assert found == [(0, [0, 1]), (1.2, [2]), (2.4, [3]), (10, [4])]


def test_many_that_are_due_go_in_bunches():
    found, _ = rows_to_replay([5] * 1200, 1)
    assert [(at, len(numbers)) for at, numbers in found] == [(0, 500), (0, 500), (0, 200)]


def test_what_was_sent_is_known_when_it_stops():
    found, sent = rows_to_replay(TIMES, 1, fails_at=2)
    assert [numbers for _, numbers in found] == [[0, 1], [2]]
    assert (sent.messages, sent.last_ms) == (3, 1500)
