"""The service in a broker, on a virtual clock: decisions, their codes, checks, and when they end."""

import asyncio

import pytest

pytest.importorskip("gantrymq_storage_memory")

from broker_desk import records
from desk import COMMIT, HALF, ROLLBACK, UNKNOWN, answer_to, bodies, end, half, join, run_with_plugin

from gantrymq.formats.record import read_record
from gantrymq.interfaces import GetLimit
from gantrymq.model import properties as props
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_transaction import half_checker
from gantrymq_transaction.service import UndecidedStats


async def in_queue(desk, topic):
    """Every record of queue 0 of *topic*."""
    store, found, offset = desk.server.store, [], 0
    while offset < store.bounds(Queue(topic, 0)).max_offset:
        result = store.get(Queue(topic, 0), offset, GetLimit(1), None)
        result = await result if asyncio.iscoroutine(result) else result
        found.append(read_record(result.buffers[0]))
        offset = result.next_offset
    return found


def test_nothing_is_seen_before_the_commit_and_all_of_it_after():
    async def main(desk, service):
        await desk.send("T", b"other")
        fields = await half(desk)
        assert await bodies(desk) == [b"other"]
        assert service.undecided().count == 1
        assert (await end(desk, fields, COMMIT)).code == 0
        _, message = records(await desk.pull("T"))
        assert bytes(message.body) == b"body1"
        assert message.sys_flag & 0xC == 8
        assert message.prepared_offset == int(fields["commitLogOffset"])
        own = props.decode(message.properties_bytes)
        assert (own["TAGS"], own["REAL_TOPIC"], own["__transactionId__"]) == ("red", "T", "ID1")
        assert service.undecided().count == 0

    run_with_plugin(main)


def test_a_message_and_its_mark_are_one_append():
    async def main(desk, service):
        fields = await half(desk)
        ends = desk.server.store.state().max_log_offset
        await end(desk, fields, COMMIT)
        first, second = desk.server.store.scan(ends, desk.server.store.state().max_log_offset)
        assert (first.topic, second.topic) == ("T", OP_TOPIC)

    run_with_plugin(main)


def test_decisions_of_one_moment_share_an_op_message():
    async def main(desk, service):
        ended = [await half(desk, number) for number in range(40)]
        await asyncio.gather(*(end(desk, fields, (COMMIT, ROLLBACK)[n % 2]) for n, fields in enumerate(ended)))
        ops = await in_queue(desk, OP_TOPIC)
        assert len(ops) < 10
        named = sorted(int(each) for op in ops for each in bytes(op.body).decode().split(",") if each)
        assert named == list(range(40))
        assert len(await bodies(desk)) == 20

    run_with_plugin(main)


def test_decisions_with_half_messages_between_them_share_op_messages_and_ride_on_their_append():
    async def main(desk, service):
        ended = [await half(desk, number) for number in range(40)]
        steps = [step for n, fields in enumerate(ended) for step in (end(desk, fields, COMMIT), half(desk, 40 + n))]
        await asyncio.gather(*steps)
        ops = await in_queue(desk, OP_TOPIC)
        assert len(ops) < 20  # not one for each half message
        assert sorted(int(each) for op in ops for each in bytes(op.body)[:-1].split(b",")) == list(range(40))
        assert (len(await bodies(desk)), service.undecided().count) == (40, 40)

    run_with_plugin(main)


def test_an_op_message_is_no_longer_than_the_setting_says():
    async def main(desk, service):
        ended = [await half(desk, number) for number in range(40)]
        await asyncio.gather(*(end(desk, fields, ROLLBACK) for fields in ended))
        assert max(len(op.body) for op in await in_queue(desk, OP_TOPIC)) <= 32

    run_with_plugin(main, transactionOpMsgMaxSize=32)


def test_what_is_rolled_back_is_never_seen():
    async def main(desk, service):
        await desk.send("T", b"other")
        assert (await end(desk, await half(desk), ROLLBACK)).code == 0
        assert await bodies(desk) == [b"other"]
        assert service.undecided().count == 0

    run_with_plugin(main)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"producerGroup": "Others"}, "belongs to producer group PG, not to Others"),
        ({"tranStateTableOffset": "5"}, "has queue offset 0, not 5"),
        ({"commitLogOffset": "7"}, "no half message is stored at log offset 7"),
        ({"commitLogOffset": "-1"}, "no half message is stored at log offset -1"),
        ({"commitLogOffset": "99999999"}, "no half message is stored at log offset 99999999"),
    ],
)
def test_a_decision_that_does_not_fit_is_refused(change, words):
    async def main(desk, service):
        await desk.send("T", b"other")
        answer = await end(desk, {**await half(desk), **change}, COMMIT)
        assert (answer.code, service.undecided().count) == (1, 1)
        assert words in answer.remark
        assert len(await bodies(desk)) == 1

    run_with_plugin(main)


def test_an_ordinary_message_is_no_half_message():
    async def main(desk, service):
        answer = await desk.send("T", b"other", properties="PGROUP\x01PG\x02")
        fields = {
            "producerGroup": "PG",
            "tranStateTableOffset": "0",
            "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
            "msgId": "x",
        }
        assert (await end(desk, fields, COMMIT)).code == 1

    run_with_plugin(main)


@pytest.mark.parametrize("decision", [UNKNOWN, 4, -1])
def test_what_decides_nothing_gets_no_answer(decision):
    async def main(desk, service):
        asked = asyncio.ensure_future(end(desk, await half(desk), decision))
        await desk.clock.sleep(5)
        assert not asked.done()
        assert service.undecided().count == 1
        asked.cancel()

    run_with_plugin(main)


def test_the_first_decision_counts():
    async def main(desk, service):
        one, two = await half(desk, 1), await half(desk, 2)
        assert (await end(desk, one, COMMIT)).code == 0
        assert (await end(desk, one, COMMIT)).code == 0
        assert (await end(desk, one, ROLLBACK)).code == 604
        assert (await end(desk, two, ROLLBACK)).code == 0
        assert (await end(desk, two, ROLLBACK)).code == 0
        assert (await end(desk, two, COMMIT)).code == 604
        together = await half(desk, 3)
        answers = await asyncio.gather(*(end(desk, together, COMMIT) for _ in range(4)))
        assert [answer.code for answer in answers] == [0] * 4
        assert await bodies(desk) == [b"body1", b"body3"]

    run_with_plugin(main)


def test_a_late_decision_with_an_immunity_time_is_refused_but_as_an_answer_it_counts():
    async def main(desk, service):
        producer = await join(desk.peer())
        fields = await half(desk, more="CHECK_IMMUNITY_TIME_IN_SECONDS\x0140\x02")
        await desk.clock.sleep(39)
        assert not producer.asked
        await desk.clock.sleep(30)
        answer = await end(desk, fields, COMMIT)
        assert answer.code == 604
        assert len(producer.asked) > 20
        assert (await end(producer, answer_to(producer.asked[-1]), COMMIT)).code == 0
        assert await bodies(desk) == [b"body1"]

    run_with_plugin(main, transactionCheckInterval=1000, transactionCheckMax=1000)


def test_a_producer_is_asked_with_what_it_needs_to_answer():
    async def main(desk, service):
        producer = await join(desk.peer())
        fields = await half(desk)
        await desk.clock.sleep(5.5)
        assert not producer.asked
        await desk.clock.sleep(2.5)
        (asked,) = producer.asked
        assert (asked.code, asked.ext["topic"], asked.ext["msgId"]) == (39, HALF_TOPIC, "ID1")
        assert asked.ext["commitLogOffset"] != fields["commitLogOffset"]
        shown = read_record(asked.payload)
        assert (shown.topic, shown.queue_id, bytes(shown.body)) == ("T", 0, b"body1")
        assert props.decode(shown.properties_bytes)["TRANSACTION_CHECK_TIMES"] == "1"
        assert (await end(producer, answer_to(asked), COMMIT)).code == 0
        await desk.clock.sleep(60)
        assert len(producer.asked) == 1
        assert await bodies(desk) == [b"body1"]
        assert service.undecided() == UndecidedStats(0, None)

    run_with_plugin(main, transactionCheckInterval=1500)


@pytest.mark.parametrize("decisions", [(COMMIT, COMMIT), (COMMIT, ROLLBACK), (ROLLBACK, ROLLBACK), (ROLLBACK, COMMIT)])
def test_a_decision_that_crosses_a_check_counts_once(decisions):
    first, second = decisions

    async def main(desk, service):
        producer = await join(desk.peer())
        fields = await half(desk)
        await desk.clock.sleep(8)
        (asked,) = producer.asked
        assert (await end(producer, fields, first)).code == 0
        assert (await end(producer, answer_to(asked), second)).code == (0 if first == second else 604)
        await desk.clock.sleep(60)
        assert len(producer.asked) == 1
        assert await bodies(desk) == ([b"body1"] if first == COMMIT else [])

    run_with_plugin(main, transactionCheckInterval=7000)


def test_a_half_message_that_was_sent_twice_becomes_one_message():
    async def main(desk, service):
        producer = await join(desk.peer())
        await half(desk)
        fields = await half(desk)
        assert (await end(desk, fields, COMMIT)).code == 0
        await desk.clock.sleep(60)
        assert not producer.asked
        assert await bodies(desk) == [b"body1"]
        assert service.undecided().count == 0

    run_with_plugin(main)


def test_after_fifteen_checks_a_message_is_given_up_and_can_still_be_committed():
    async def main(desk, service):
        producer = await join(desk.peer())
        fields = await half(desk)
        await desk.clock.sleep(15 * 30 + 1)
        assert len(producer.asked) == 15
        assert service.undecided().count == 1
        await desk.clock.sleep(30)
        assert service.undecided().count == 0
        (given_up,) = await in_queue(desk, CHECK_MAX_TIME_TOPIC)
        own = props.decode(given_up.properties_bytes)
        assert (own["TRANSACTION_CHECK_TIMES"], own["REAL_TOPIC"]) == ("15", "T")
        await desk.clock.sleep(600)
        assert len(producer.asked) == 15
        assert (await end(desk, fields, COMMIT)).code == 0
        assert await bodies(desk) == [b"body1"]
        assert (await end(desk, answer_to(producer.asked[-1]), COMMIT)).code == 0
        assert await bodies(desk) == [b"body1"]

    run_with_plugin(main, channelExpiredTimeout=3600_000)


def test_a_check_that_reaches_nobody_is_not_counted():
    async def main(desk, service):
        await half(desk)
        await desk.clock.sleep(3600)
        assert service.undecided().count == 1
        assert not await in_queue(desk, CHECK_MAX_TIME_TOPIC)
        producer = await join(desk.peer())
        await desk.clock.sleep(30)
        assert props.decode(read_record(producer.asked[0].payload).properties_bytes)["TRANSACTION_CHECK_TIMES"] == "1"

    run_with_plugin(main)


def test_what_nobody_can_be_asked_about_is_given_up_when_its_record_is_about_to_go():
    async def main(desk, service):
        await half(desk)
        await desk.clock.sleep(72 * 3600 - 60)
        assert service.undecided().count == 1
        await desk.clock.sleep(200)
        assert service.undecided().count == 0
        assert len(await in_queue(desk, CHECK_MAX_TIME_TOPIC)) == 1

    run_with_plugin(main, limit_s=80 * 3600)


def test_another_member_is_asked_when_one_is_gone():
    async def main(desk, service):
        first, second = await join(desk.peer(), client_id="p1"), await join(desk.peer(), client_id="p2")
        for number in range(6):
            await half(desk, number)
        await desk.clock.sleep(40)
        assert (len(first.asked), len(second.asked)) == (3, 3)
        await first.client.close()
        await desk.clock.sleep(30)
        assert (len(first.asked), len(second.asked)) == (3, 9)

    run_with_plugin(main)


def test_progress_is_told_to_the_table_of_offsets():
    async def main(desk, service):
        group = "CID_RMQ_SYS_TRANS"
        for number in range(3):
            await end(desk, await half(desk, number), ROLLBACK)
        last = await half(desk, 3)
        await desk.clock.sleep(31)
        offsets = desk.tables.offsets
        assert offsets.committed(group, Queue(HALF_TOPIC, 0)) == 3
        assert offsets.committed(group, Queue(OP_TOPIC, 0)) == 3
        await end(desk, last, COMMIT)
        await desk.clock.sleep(31)
        assert offsets.committed(group, Queue(HALF_TOPIC, 0)) == 4
        assert offsets.committed(group, Queue(OP_TOPIC, 0)) == 4

    run_with_plugin(main)


def test_no_offsets_are_told_before_there_is_a_transaction():
    """As in a Java broker, whose group CID_RMQ_SYS_TRANS has none until a transaction is settled."""

    async def main(desk, _service):
        await desk.send("T")
        await desk.clock.sleep(65)
        offsets = desk.tables.offsets
        queues = Queue(HALF_TOPIC, 0), Queue(OP_TOPIC, 0)
        assert [offsets.committed("CID_RMQ_SYS_TRANS", queue) for queue in queues] == [None, None]

    run_with_plugin(main)


def test_a_half_message_without_a_group_is_refused():
    async def main(desk, service):
        answer = await desk.send("T", b"x", properties="TRAN_MSG\x01true\x02UNIQ_KEY\x01ID\x02", sys_flag=4)
        assert answer.code == 13
        assert "names no producer group (PGROUP)" in answer.remark

    run_with_plugin(main)


def test_an_undecided_message_does_not_hold_up_many_that_are_settled(monkeypatch):
    monkeypatch.setattr(half_checker, "SLACK", 10)

    async def main(desk, service):
        first = await half(desk, 0)
        for number in range(1, 40):
            await end(desk, await half(desk, number), ROLLBACK)
        await desk.clock.sleep(31)
        committed = desk.tables.offsets.committed("CID_RMQ_SYS_TRANS", Queue(HALF_TOPIC, 0))
        assert committed == 40
        assert service.undecided().count == 1
        producer = await join(desk.peer())
        await desk.clock.sleep(30)
        (asked,) = producer.asked
        assert props.decode(read_record(asked.payload).properties_bytes)["TRANSACTION_CHECK_TIMES"] == "1"
        assert (await end(desk, first, COMMIT)).code == 0
        assert (await end(producer, answer_to(asked), COMMIT)).code == 0
        assert await bodies(desk) == [b"body0"]
        assert service.undecided().count == 0

    run_with_plugin(main)


def test_undecided_transactions_are_among_the_figures():
    async def main(desk, service):
        await half(desk)
        await desk.clock.sleep(31)
        shown = {each.name: each.values for each in service.broker.metrics.snapshot().plugin_metrics}
        assert shown["gantrymq_transactions_undecided"] == {(): 1}
        assert shown["gantrymq_transactions_oldest_seconds"][()] == pytest.approx(31, abs=2)

    run_with_plugin(main)


def test_nothing_is_decided_by_an_index_that_is_behind_the_log(monkeypatch):
    async def main(desk, service):
        fields = await half(desk)
        assert (await end(desk, fields, COMMIT)).code == 0
        store = desk.server.store
        real = store.query
        monkeypatch.setattr(store, "query", lambda *asked: real(*asked)._replace(records=(), complete=False))
        answer = await end(desk, fields, COMMIT)
        assert answer.code == 2
        assert "the index by key lags behind the log" in answer.remark
        monkeypatch.setattr(store, "query", real)
        assert (await end(desk, fields, COMMIT)).code == 0
        assert await bodies(desk) == [b"body1"]

    run_with_plugin(main)


def test_a_copy_that_is_decided_while_the_store_is_asked_about_another():
    async def main(desk, service):
        await half(desk)
        producer = await join(desk.peer())
        await desk.clock.sleep(31)
        (asked,) = producer.asked
        fields = await half(desk)
        store = desk.server.store
        real, held = store.query, asyncio.get_running_loop().create_future()

        async def cold(found):
            await held
            return found

        def query(topic, *rest):
            return cold(real(topic, *rest)) if topic == "T" else real(topic, *rest)

        store.query = query
        slow = asyncio.ensure_future(end(producer, answer_to(asked), COMMIT))
        await desk.clock.sleep(0.1)
        assert (await end(desk, fields, COMMIT)).code == 0
        held.set_result(None)
        assert (await slow).code == 0
        store.query = real
        assert await bodies(desk) == [b"body1"]

    run_with_plugin(main)


def test_commits_for_a_topic_of_a_type_share_an_append():
    async def main(desk, service):
        service.broker.topics.put(TopicConfig("T", 4, 4, attributes={"message.type": "TRANSACTION"}))
        ended = [await half(desk, number) for number in range(40)]
        await asyncio.gather(*(end(desk, fields, COMMIT) for fields in ended))
        assert len(await in_queue(desk, OP_TOPIC)) < 10
        assert len(await bodies(desk)) == 40

    run_with_plugin(main)


@pytest.mark.parametrize("more", ["", "DELAY\x011\x02"])
@pytest.mark.parametrize("flags", [4 | 128, 4])
def test_a_half_message_that_claims_to_be_a_batch_is_refused(more, flags):
    async def main(desk, service):
        mark = "INNER_NUM\x013\x02" if flags == 4 else ""
        answer = await desk.send("T", b"x", properties=HALF.format(id="I") + mark + more, sys_flag=flags)
        assert answer.code == 13
        assert "INNER_NUM and sysFlag 128 mark an inner batch" in answer.remark
        assert service.undecided().count == 0

    run_with_plugin(main)
