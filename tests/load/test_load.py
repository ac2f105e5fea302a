"""A thousand connections with mixed sends and pulls, a slow reader among them, against `gantrymq start`.

The default run takes ten seconds, `-m long` two minutes, in ROUNDS rounds: half of each without the slow reader, half
with it, then it reads the outstanding answers. Rounds alternate so that other load on the machine affects both.
The test checks that

- every request is answered once, the slow reader's included, and every acknowledged message is in its queue;
- memory other than pages of the store's files grows by less than GROWTH_BYTES after all are connected;
- the 99th percentile of the others, as the median of the rounds, is with the slow reader at most MUCH_WORSE times
  that without it, plus the noise of a busy machine (NOISE_S).
"""

import asyncio
import statistics
from collections.abc import Callable

import pytest
from load_rig import (
    BrokerProcess,
    Crowd,
    SlowReader,
    connect,
    create_topic_request,
    percentile,
    pull_request,
    raise_descriptor_limit,
)

CONNECTIONS = 1000
THINK_S = 0.5  # two requests a second and connection
TOPIC, QUEUES = "CrowdLoad", 8
GROWTH_BYTES = 96 * 1024 * 1024  # 64 MiB is the limit of unwritten data for one connection
MUCH_WORSE, NOISE_S = 3.0, 0.25
ANSWER_S = 60.0
WARM_UP_S = 2.0
ROUNDS = 5
SAMPLE_S = 0.25
MB = 1e6

Say = Callable[[str], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Print in spite of pytest's capture."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", end="", flush=True)

    return line


def test_a_thousand_connections_for_ten_seconds(say: Say) -> None:
    asyncio.run(load(10.0, say))


@pytest.mark.long
def test_a_thousand_connections_for_two_minutes(say: Say) -> None:
    asyncio.run(load(120.0, say))


async def load(seconds: float, say: Say) -> None:
    if raise_descriptor_limit(CONNECTIONS + 200) < CONNECTIONS + 100:
        pytest.skip(f"{CONNECTIONS} connections need as many descriptors; raise the hard limit of open files")
    with BrokerProcess() as broker:
        connections = await connect(broker.address, CONNECTIONS)
        assert (await connections[0].call(create_topic_request(TOPIC, QUEUES))).code == 0
        slow = SlowReader((await connect(broker.address))[0])
        await slow.prepare()
        crowd = Crowd(connections, TOPIC, QUEUES, THINK_S, seed=4)
        memory = Memory(broker)
        watching = asyncio.create_task(memory.watch())
        crowd.start()
        await asyncio.sleep(WARM_UP_S)  # real time: length of the load
        alone: list[list[float]] = []
        beside: list[list[float]] = []
        owed: list[int] = []
        for _ in range(ROUNDS):
            crowd.take_times()
            await asyncio.sleep(seconds / ROUNDS / 2)  # real time: length of the load
            alone.append(crowd.take_times())
            slow.start()
            await asyncio.sleep(seconds / ROUNDS / 2)  # real time: length of the load
            beside.append(crowd.take_times())
            owed.append(slow.connection.waiting)
            await slow.read_all(ANSWER_S)
        await crowd.stop(ANSWER_S)
        watching.cancel()

        timed = sum(map(len, [*alone, *beside]))
        say(f"{CONNECTIONS} connections, {seconds:g} s, {crowd.sent:,} messages sent, {timed:,} answers timed")
        say(f"{'':22}{'p50 ms':>9}{'p90 ms':>9}{'p99 ms':>9}{'p99.9 ms':>9}{'max ms':>9}")
        say(f"{'without a slow reader':22}{latencies(alone)}")
        say(f"{'beside a slow reader':22}{latencies(beside)}")
        say(f"slow reader: {owed} pulls owed each time it began to read, {slow.read_bytes / MB:.0f} MB read in the end")
        say(f"memory: {memory.first / MB:.1f} MB connected, {memory.most / MB:.1f} MB at most")

        assert crowd.refused == {}
        assert slow.wrong == []
        everyone = [*connections, slow.connection]
        assert [each for each in everyone if each.lost] == []
        assert sum(each.waiting for each in everyone) == 0, "requests were never answered"
        assert sum(each.strays for each in everyone) == 0, "answers came twice, or to nobody"
        assert sum(each.asked for each in everyone) == sum(each.answered for each in everyone)
        answers = [await connections[0].call(pull_request(TOPIC, queue, 0, "count")) for queue in range(QUEUES)]
        assert sum(answer.max_offset for answer in answers) == crowd.sent
        assert min(owed) > 100, "the slow reader was not slow: the broker's answers must have filled its socket"
        assert memory.most - memory.first < GROWTH_BYTES
        assert all(alone), "a slice without any answer"
        assert all(beside), "a slice without any answer"
        assert usual_p99(beside) < MUCH_WORSE * usual_p99(alone) + NOISE_S
        for each in everyone:
            each.close()


class Memory:
    """The broker's own memory over time, without the pages of the store's files."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self.first = self.most = broker.private_bytes()

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            self.most = max(self.most, self._broker.private_bytes())
            await asyncio.sleep(SAMPLE_S)  # real time: interval of the samples


def usual_p99(rounds: list[list[float]]) -> float:
    """The 99th percentile of each round; the median of them, in seconds."""
    return statistics.median(percentile(times, 0.99) for times in rounds)


def latencies(rounds: list[list[float]]) -> str:
    """Percentiles over all rounds, in ms."""
    times = sorted(time for each in rounds for time in each)
    return "".join(f"{percentile(times, share) * 1000:9.2f}" for share in (0.5, 0.9, 0.99, 0.999, 1.0))
