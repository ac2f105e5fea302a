"""The comparison of a slave that does not compare logs itself: its last message is asked for at its broker port."""

import contextlib
import random

import pytest
from ha_pairs import end, log_of, put, replicas, service, simulate_pair

from gantrymq_replication import slave_log
from gantrymq_replication.master import MasterService
from gantrymq_replication.protocol import Refused
from gantrymq_replication.slave_log import SlaveLogs, last_message

SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": "127.0.0.1:1"}  # nobody listens there
FILE_BYTES = 65536


def records_of(data):
    """Start and end of each message in a log that begins at 0."""
    found, place = [], 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        if data[place + 4 : place + 7] == b"\xda\xa3\x20":
            found.append((place, place + size))
        place += size
    return found


def test_the_last_message_before_any_place_is_found():
    async def main(pair):
        master = await pair.master()
        for size in (10, 500, 20_000, 700, 3000):
            await put(master, 40, size)
        log, (_, data) = master.store.raw_log, await log_of(master)
        records, chance = records_of(data), random.Random(1)
        ends = [last for _, last in chance.sample(records, 60)] + [chance.randrange(1, len(data)) for _ in range(60)]
        for place in [*ends, *range(FILE_BYTES, len(data), FILE_BYTES), len(data)]:
            in_file = [
                each for each in records if (place - 1) // FILE_BYTES * FILE_BYTES <= each[0] and each[1] <= place
            ]
            expected = (in_file[-1][0], data[slice(*in_file[-1])]) if in_file else None
            assert await last_message(log, place, pair.world.clock) == expected

    simulate_pair(main)


@pytest.fixture
def like_rocketmq(monkeypatch):
    """Brokers do not tell that they compare logs, and ours says in its words that it has no message at an offset."""

    async def tells_not(self, slave):
        return False

    monkeypatch.setattr(SlaveLogs, "_compares", tells_not)
    monkeypatch.setattr(slave_log, "_NO_MESSAGE", "no message starts at log offset")


async def joined(pair, mine, its):
    """What a master says to a slave that had 50 of its messages, then *mine* of its own, and reports its end."""
    master = await pair.master()
    slave = await pair.slave(master)
    await put(master, 50)
    await pair.equal(master, slave)
    await slave.stop()
    if mine:
        alone = await pair.start("slave", brokerName="broker-b")
        await put(alone, mine, topic="Own")
        await alone.stop()
    await put(master, its)
    slave = await pair.start("slave", master.namesrv, **SLAVE)
    known = service(master, MasterService).replicas.departures
    before = len(known.all)
    reader, writer = await pair.connect(master)
    writer.write(end(slave).to_bytes(8, "big"))
    try:
        got = await reader.read(12)
    except OSError:
        got = b""
    served = bool(replicas(master))
    writer.close()
    await pair.until(lambda: not replicas(master) and (got or known.all), "end")
    assert before == 1
    return master, slave, got, served, known.all[0].problem


def test_a_different_log_is_refused_before_anything_is_sent(like_rocketmq):
    async def main(pair):
        master, slave, got, served, problem = await joined(pair, 5, 9)
        assert got == b"" and not served
        assert f"its log ends at {end(slave)}, but has another record at " in problem
        assert f"as its broker {slave.broker.registration.address} says" in problem
        assert service(master, MasterService).port.refusals.count == 1

    simulate_pair(main)


def test_the_same_log_is_served(like_rocketmq):
    async def main(pair):
        _, slave, got, served, _ = await joined(pair, 0, 9)
        assert int.from_bytes(got[:8], "big") == end(slave) and served

    simulate_pair(main)


def test_a_slave_that_compares_logs_itself_is_not_asked():
    async def main(pair):
        _, slave, got, served, _ = await joined(pair, 5, 9)
        assert int.from_bytes(got[:8], "big") == end(slave) and served

    simulate_pair(main)


def test_a_slave_that_does_not_answer_is_served_soon(like_rocketmq, monkeypatch):
    asked = []

    async def unanswered(self, slave, log_offset, record):
        asked.append(slave)
        await self._broker.world.clock.sleep(2)

    monkeypatch.setattr(SlaveLogs, "_has", unanswered)

    async def main(pair):
        _, slave, _, served, _ = await joined(pair, 5, 9)
        assert served and asked == [slave.broker.registration.address]

    simulate_pair(main)


@pytest.mark.parametrize(
    ("verdicts", "refused"),
    [
        ([False], True),
        ([False, False], True),
        ([False, True], False),
        ([False, None], False),  # the one that does not answer may be the one that connected
        ([None], False),
        ([], False),
    ],
)
def test_a_slave_is_refused_only_if_every_slave_on_its_host_has_another_log(verdicts, refused, monkeypatch):
    answers = iter(verdicts)

    async def slaves_at(self, host):
        return [f"{host}:{number}" for number, _ in enumerate(verdicts)]

    async def has(self, slave, log_offset, record):
        return next(answers)

    monkeypatch.setattr(SlaveLogs, "_slaves_at", slaves_at)
    monkeypatch.setattr(SlaveLogs, "_has", has)

    async def main(pair):
        master = await pair.master()
        await put(master, 1)
        logs = SlaveLogs(master.broker, master.store.raw_log)
        with pytest.raises(Refused) if refused else contextlib.nullcontext():
            await logs.compare("10.0.0.9:50000", end(master))
        await logs.close()

    simulate_pair(main)
