"""Half messages and one-way decisions of one read, which are prepared and stored together."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("gantrymq_storage_memory")

from broker_desk import ADDRESS, START_MS, records
from desk import COMMIT, HALF, ROLLBACK, join, run_with_plugin

from gantrymq.interfaces import GetLimit, PutStatus
from gantrymq.model import properties as props
from gantrymq.model.access import Decision, Principal
from gantrymq.model.names import HALF_TOPIC, OP_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.plugins import Plugins
from gantrymq.remoting.command import request
from gantrymq_storage_memory.store import MemoryStore
from gantrymq_store_files.put import refused
from gantrymq_transaction import recent_halves
from gantrymq_transaction.service import RocketTransactions

QUEUES = 3


class OneByOne:
    """The same service without the methods for several requests."""

    def __init__(self):
        inner = RocketTransactions()
        self.start, self.stop, self.prepare, self.end, self.check = (
            *(inner.start, inner.stop, inner.prepare, inner.end, inner.check),
        )


class Counted(RocketTransactions):
    """Counts what was prepared and ended together."""

    def __init__(self):
        super().__init__()
        self.prepared, self.ended = [], []

    def prepare_together(self, messages, unique_ids):
        stored = super().prepare_together(messages, unique_ids)
        self.prepared.append(0 if stored is None else len(messages))
        return stored

    def end_together(self, requests, gated):
        self.ended.append(super().end_together(requests, gated))
        return self.ended[-1]


async def send_half(desk, number, *, more="", flags=4, body=None):
    """Send a half message like the others; return the fields with which its producer ends it."""
    answer = await desk.send(
        "T",
        body or b"body%d" % number,
        properties=HALF.format(id=f"ID{number}") + more,
        sys_flag=flags,
        queue_id=number % QUEUES,
        born_timestamp=START_MS + number,
    )
    assert answer.code == 0, answer.remark
    return {
        "producerGroup": "PG",
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
        "msgId": f"ID{number}",
        "transactionId": f"ID{number}",
    }


async def end_oneway(desk, fields, decision, **more):
    """Send a decision as a client does."""
    connection = await desk.client.connect(ADDRESS)
    connection.oneway(request(37, {**fields, "commitOrRollback": str(decision), **more}, oneway=True))


async def learn(desk, more=""):
    """Send half messages until what was found out about them is used for the next ones, and roll them back."""
    for number in range(900, 905):
        await end_oneway(desk, await send_half(desk, number, more=more), ROLLBACK)
    await desk.clock.sleep(1)


async def stored(desk, topic, queue_id=0):
    found = desk.server.store.get(Queue(topic, queue_id), 0, GetLimit(1000), None)
    return [] if not found.buffers else records(type("Answer", (), {"payload": b"".join(map(bytes, found.buffers))}))


async def committed(desk):
    """Bodies of committed messages, by queue."""
    return {bytes(each.body) for queue_id in range(QUEUES) for each in await stored(desk, "T", queue_id)}


def run(main, service=None, **values):
    return run_with_plugin(main, None, service or Counted(), **values)


async def many(desk, more=""):
    """Transactions of several producers of one connection; return all records of the store."""
    await learn(desk, more)
    decided = []
    for part in range(4):
        sends = [send_half(desk, 20 * part + number, more=more) for number in range(20)]
        ends = [end_oneway(desk, fields, decision) for fields, decision in decided]
        *_, halves = await asyncio.gather(*ends, asyncio.gather(*sends))
        decided = [(fields, ROLLBACK if number % 5 == 0 else COMMIT) for number, fields in enumerate(halves)]
    for fields, decision in decided:
        await end_oneway(desk, fields, decision)
    await desk.clock.sleep(1)
    return {
        (topic, queue_id): await stored(desk, topic, queue_id)
        for topic, queue_id in [*(("T", number) for number in range(QUEUES)), (HALF_TOPIC, 0), (OP_TOPIC, 0)]
    }


@pytest.mark.parametrize("more", ["", "WAIT\x01false\x02", "DELAY\x010\x02", "CHECK_IMMUNITY_TIME_IN_SECONDS\x015\x02"])
def test_what_is_stored_together_is_what_is_stored_one_by_one(more):
    def comparable(found):
        halves = {each.log_offset: each.queue_offset for each in found[HALF_TOPIC, 0]}
        rows = {}
        for (topic, queue_id), views in found.items():
            if topic != OP_TOPIC:  # how many share one depends on the moment
                rows[topic, queue_id] = sorted(
                    (
                        *(bytes(each.body), bytes(each.properties_bytes), each.topic, each.queue_id, each.flag),
                        *(each.sys_flag, each.born_timestamp, each.born_host, each.store_host, each.reconsume_times),
                        halves.get(each.prepared_offset) if each.prepared_offset else None,
                    )
                    for each in views
                )
        settled = sorted(int(each) for op in found[OP_TOPIC, 0] for each in bytes(op.body)[:-1].split(b","))
        return rows, settled

    service = Counted()
    together = comparable(run(lambda desk, _: many(desk, more), service))
    apart = comparable(run(lambda desk, _: many(desk, more), OneByOne()))
    assert together == apart
    assert together[1] == list(range(85))
    assert len(together[0]["T", 0]) + len(together[0]["T", 1]) + len(together[0]["T", 2]) == 64
    if more in ("", "WAIT\x01false\x02"):
        assert min(sum(service.prepared), sum(service.ended)) >= 80
        assert max(service.prepared) > 10 and max(service.ended) > 10
    else:
        assert sum(service.ended) == 0


def test_one_that_is_not_kept_any_more_is_read_from_the_log(monkeypatch):
    monkeypatch.setattr(recent_halves, "_MOST", 4)

    async def main(desk, service):
        await learn(desk)
        halves = await asyncio.gather(*(send_half(desk, number) for number in range(10)))
        service.ended.clear()
        await asyncio.gather(*(end_oneway(desk, fields, COMMIT) for fields in halves))
        await desk.clock.sleep(1)
        assert sum(service.ended) == 4
        assert await committed(desk) == {b"body%d" % number for number in range(10)}
        assert service.undecided().count == 0

    run(main)


def test_kept_bytes_are_bounded(monkeypatch):
    monkeypatch.setattr(recent_halves, "_MOST_BYTES", 1000)

    async def main(desk, service):
        await learn(desk)
        halves = await asyncio.gather(*(send_half(desk, number, body=bytes([number]) * 400) for number in range(5)))
        service.ended.clear()
        await asyncio.gather(*(end_oneway(desk, fields, COMMIT) for fields in halves))
        await desk.clock.sleep(1)
        assert sum(service.ended) == 1
        assert len(await committed(desk)) == 5

    run(main)


@pytest.mark.parametrize(
    "change",
    [
        {"producerGroup": "other"},
        {"tranStateTableOffset": "1"},
        {"commitLogOffset": "1"},
        {"commitOrRollback": "0"},
        {"commitOrRollback": "4"},
    ],
)
def test_a_decision_that_does_not_fit_decides_nothing_and_parts_those_around_it(change):
    async def main(desk, service):
        await learn(desk)
        halves = await asyncio.gather(*(send_half(desk, number) for number in range(5)))
        ends = [end_oneway(desk, fields, COMMIT, **(change if n == 2 else {})) for n, fields in enumerate(halves)]
        await asyncio.gather(*ends)
        await desk.clock.sleep(1)
        assert await committed(desk) == {b"body%d" % number for number in (0, 1, 3, 4)}
        assert service.undecided().count == 1
        await end_oneway(desk, halves[2], COMMIT)
        await desk.clock.sleep(1)
        assert await committed(desk) == {b"body%d" % number for number in range(5)}
        assert service.undecided().count == 0

    run(main)


def test_the_first_decision_of_one_read_counts():
    async def main(desk, service):
        await learn(desk)
        first, second = await asyncio.gather(*(send_half(desk, number) for number in range(2)))
        decisions = [(first, COMMIT), (first, COMMIT), (first, ROLLBACK), (second, ROLLBACK), (second, COMMIT)]
        await asyncio.gather(*(end_oneway(desk, *each) for each in decisions))
        await desk.clock.sleep(1)
        assert await committed(desk) == {b"body0"}
        assert [len(await stored(desk, "T", queue_id)) for queue_id in range(QUEUES)] == [1, 0, 0]
        assert service.undecided().count == 0

    run(main)


def test_a_decision_that_answers_a_check_is_checked_by_itself():
    async def main(desk, service):
        await learn(desk)
        fields = await send_half(desk, 1)
        service.ended.clear()
        await end_oneway(desk, fields, COMMIT, fromTransactionCheck="true")
        await desk.clock.sleep(1)
        assert service.ended == [0]
        assert await committed(desk) == {b"body1"}

    run(main)


def test_a_message_that_the_store_refuses_stays_undecided_and_those_beside_it_are_committed(monkeypatch):
    put = MemoryStore.put

    def without_bad(self, messages):
        if any(each.topic == "T" and bytes(each.body) == b"bad" for each in messages):
            return [refused(PutStatus.MESSAGE_ILLEGAL, "a bad one")] * len(messages)
        return put(self, messages)

    monkeypatch.setattr(MemoryStore, "put", without_bad)

    async def main(desk, service):
        await learn(desk)
        bodies = [b"body0", b"bad", b"body2", b"body3"]
        halves = await asyncio.gather(*(send_half(desk, number, body=each) for number, each in enumerate(bodies)))
        service.ended.clear()
        decisions = [COMMIT, COMMIT, COMMIT, ROLLBACK]
        await asyncio.gather(*(end_oneway(desk, *each) for each in zip(halves, decisions, strict=True)))
        await desk.clock.sleep(1)
        assert sum(service.ended) == 4
        assert await committed(desk) == {b"body0", b"body2"}
        assert service.undecided().count == 1
        answer = await desk.ask(37, {**halves[1], "commitOrRollback": str(ROLLBACK)})
        assert (answer.code, service.undecided().count) == (0, 0)

    run(main)


def test_an_op_message_of_decisions_of_one_read_is_no_longer_than_the_setting_says():
    async def main(desk, service):
        await learn(desk)
        halves = await asyncio.gather(*(send_half(desk, number) for number in range(30)))
        await asyncio.gather(*(end_oneway(desk, fields, COMMIT) for fields in halves))
        await desk.clock.sleep(1)
        assert max(len(op.body) for op in await stored(desk, OP_TOPIC)) <= 40
        assert len(await committed(desk)) == 30

    run(main, transactionOpMsgMaxSize=40)


def test_an_interceptor_of_a_property_that_the_service_adds_sees_committed_messages():
    class Mark:
        order, properties = 1, frozenset({props.REAL_TOPIC})

        def __call__(self, message):
            assert message.topic == "T"
            message.body = b"seen " + bytes(message.body)
            return message

    async def main(desk, service):
        await learn(desk)
        halves = await asyncio.gather(*(send_half(desk, number) for number in range(3)))
        await asyncio.gather(*(end_oneway(desk, fields, COMMIT) for fields in halves))
        await desk.clock.sleep(1)
        assert (max(service.prepared) >= 2, sum(service.ended)) == (True, 0)
        assert await committed(desk) == {b"seen body0", b"seen body1", b"seen body2"}

    run_with_plugin(main, Plugins(stores={"memory": MemoryStore}, interceptors=(Mark(),)), Counted())


@pytest.mark.parametrize("more", ["DELAY\x011\x02", "CHECK_IMMUNITY_TIME_IN_SECONDS\x015\x02", None])
def test_half_messages_are_kept_beside_other_messages_of_one_read(more, caplog):
    def other(desk, number):
        if more is None:
            return desk.send("T", b"other", properties=f"UNIQ_KEY\x01ID{number}\x02", born_timestamp=START_MS)
        return send_half(desk, number, more=more)

    async def main(desk, service):
        await learn(desk)
        for number in range(800, 803):
            await other(desk, number)
        sends = [send_half(desk, number) for number in range(3)] + [other(desk, number) for number in range(10, 13)]
        halves = (await asyncio.gather(*sends))[:3]
        service.ended.clear()
        await asyncio.gather(*(end_oneway(desk, fields, COMMIT) for fields in halves))
        await desk.clock.sleep(1)
        assert service.ended == [3]
        assert {b"body0", b"body1", b"body2"} <= await committed(desk)

    run(main)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_half_messages_of_users_are_not_kept():
    class EveryoneMay:
        async def start(self, broker):
            """Nothing."""

        async def stop(self):
            """Nothing."""

        def authenticate(self, credentials, client):
            return Principal("orders")

        def authorize(self, principal, actions, resource):
            return Decision(True)

    class Keeping(Counted):
        kept = 0

        def prepare_together(self, messages, unique_ids):
            stored = super().prepare_together(messages, unique_ids)

            def counted(results):
                self.kept += len(results)
                stored(results)

            return None if stored is None else counted

    async def main(desk, service):
        await learn(desk)
        halves = await asyncio.gather(*(send_half(desk, number) for number in range(3)))
        await asyncio.gather(*(end_oneway(desk, fields, COMMIT) for fields in halves))
        await desk.clock.sleep(1)
        assert max(service.prepared) >= 2
        assert (service.kept, service.ended) == (0, [])
        assert await committed(desk) == {b"body0", b"body1", b"body2"}

    plugins = Plugins(stores={"memory": MemoryStore}, authorizers={"all": lambda context: EveryoneMay()})
    run_with_plugin(main, plugins, Keeping(), authorizer="all")


def test_properties_that_grow_too_long_are_refused_for_each():
    more = "A\x01" + "x" * (props.MAX_SENT_BYTES - 300) + "\x02"

    async def main(desk, service):
        await learn(desk, more)
        long = "I" * 200
        own = HALF.format(id=long) + more
        answers = await asyncio.gather(
            *(desk.send("T", b"long", properties=own, sys_flag=4) for _ in range(2)), send_half(desk, 1, more=more)
        )
        assert [answer.code for answer in answers[:2]] == [13, 13]
        await end_oneway(desk, answers[2], COMMIT)
        await desk.clock.sleep(1)
        assert await committed(desk) == {b"body1"}

    run(main)


def test_half_messages_are_refused_once_the_setting_says_so():
    async def main(desk, service):
        await learn(desk)
        desk.server.settings.set("rejectTransactionMessage", "true", "the test")
        answer = await desk.send("T", b"no", properties=HALF.format(id="ID1"), sys_flag=4, born_timestamp=START_MS)
        assert (answer.code, "rejectTransactionMessage" in answer.remark) == (16, True)

    run(main)


def test_a_producer_alone_has_its_half_message_answered_before_its_decision_is_stored():
    async def main(desk, service):
        await learn(desk)
        decided = await send_half(desk, 1)
        following, _ = await asyncio.gather(send_half(desk, 2), end_oneway(desk, decided, COMMIT))
        await desk.clock.sleep(0.0015)  # less than decisions of several producers are gathered for
        (first,) = await stored(desk, "T", 1)
        assert first.log_offset > int(following["commitLogOffset"])
        await end_oneway(desk, following, COMMIT)
        await desk.clock.sleep(0.0005)
        last = await send_half(desk, 3)
        await desk.clock.sleep(0.0005)
        (second,) = await stored(desk, "T", 2)
        assert second.log_offset > int(last["commitLogOffset"])
        await end_oneway(desk, last, COMMIT)  # without another half message
        await desk.clock.sleep(0.005)
        assert await committed(desk) == {b"body1", b"body2", b"body3"}

    run(main, flushDiskType="ASYNC_FLUSH")


def test_with_gates_the_decision_of_a_producer_alone_shares_the_append_of_its_next_half_message():
    async def main(desk, service):
        await learn(desk)
        decided = await send_half(desk, 1)
        _, following = await asyncio.gather(end_oneway(desk, decided, COMMIT), send_half(desk, 2))
        await desk.clock.sleep(1)
        (first,) = await stored(desk, "T", 1)
        assert first.log_offset < int(following["commitLogOffset"])

    run(main, flushDiskType="SYNC_FLUSH")


def test_a_stopped_service_takes_nothing():
    async def main(desk, service):
        await learn(desk)
        halves = await asyncio.gather(*(send_half(desk, number) for number in range(3)))
        await service.stop()
        service.ended.clear()
        await asyncio.gather(*(end_oneway(desk, fields, COMMIT) for fields in halves))
        await desk.clock.sleep(1)
        assert (sum(service.ended), await committed(desk)) == (0, set())

    run(main)


def test_undecided_ones_are_checked_like_others():
    async def main(desk, service):
        await learn(desk)
        await asyncio.gather(*(send_half(desk, number) for number in range(3)))
        producer = await join(desk.peer())
        await desk.clock.sleep(65)
        assert {asked.ext["msgId"] for asked in producer.asked} >= {"ID0", "ID1", "ID2"}

    run(main)
