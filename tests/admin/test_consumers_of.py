"""Who consumed a message: every scenario with our client and a broker in memory, on a virtual clock."""

import asyncio

import attrs
import pytest
from consumption_rig import GROUP, LEVELS, TOPIC, found_of, judged, member, send, verdict_of

from gantrymq.client import Client, Message, ReconsumeLater, TransactionState
from gantrymq.client.admin import OffsetTarget
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq_admin.consumption import Certainty, Fact, Kind, Reason, Stage
from gantrymq_admin.consumption.evidence import sentence
from gantrymq_testing.simulation import simulate_cluster

for each in ("storage_memory", "filter_tag", "schedule", "diagnosis"):
    pytest.importorskip(f"gantrymq_{each}")


async def works(message):
    """Consume it."""


async def fails(message):
    raise ReconsumeLater


def test_consumed_without_trace_is_only_passed():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(12)
            found = await verdict_of(cluster, message)
        assert judged(found) == (Reason.PASSED, Certainty.LIKELY)
        assert found.facts.committed == 1
        offline = await verdict_of(cluster, message)
        assert judged(offline) == (Reason.PASSED, Certainty.LIKELY)

    simulate_cluster(work)


def test_consumed_with_trace_is_certain():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster, trace=True)
        async with member(cluster, handle=works, trace=True):
            await cluster.world.clock.sleep(12)
        found = await found_of(cluster, message)
        assert found.traced
        (verdict,) = found.verdicts
        assert judged(verdict) == (Reason.CONSUMED, Certainty.CERTAIN)
        assert verdict.attempt.client_host == "127.0.0.1"
        assert verdict.attempt.failures == 0
        assert verdict.attempt.ended_ms >= verdict.attempt.began_ms >= message.store_timestamp

    simulate_cluster(work)


def test_traced_by_the_producer_alone():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster, trace=True)
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(12)
        found = await found_of(cluster, message)
        assert found.traced
        assert [judged(each) for each in found.verdicts] == [(Reason.PASSED, Certainty.LIKELY)]

    simulate_cluster(work)


def test_not_yet_and_its_owner():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with member(cluster, handle=works):
            await send(cluster, b"0")
            await cluster.world.clock.sleep(12)
        message = await send(cluster)
        found = await verdict_of(cluster, message)
        assert judged(found) == (Reason.NOT_YET, Certainty.CERTAIN)
        assert (found.facts.committed, message.queue_offset) == (1, 1)
        assert found.facts.members == ()

    simulate_cluster(work)


def test_consumed_a_moment_ago_is_never_not_yet():
    """Members commit every 5 s."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with member(cluster, handle=works, commit_every_s=3600):
            await cluster.world.clock.sleep(12)
            message = await send(cluster)
            await cluster.world.clock.sleep(1)
            found = await verdict_of(cluster, message)
            assert not found.facts.committed
            assert judged(found) == (Reason.PASSED, Certainty.LIKELY)
            assert found.facts.positions[0].committed == 1

    simulate_cluster(work)


@pytest.mark.parametrize("orderly", [False, True])
def test_in_the_hands_of_a_member(orderly):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message, stay = await send(cluster), asyncio.Event()

        async def handle(message):
            await stay.wait()

        async with member(cluster, handle=handle, orderly=orderly):
            await cluster.world.clock.sleep(12)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.HANDED_OUT, Certainty.CERTAIN)
            assert found.facts.positions[0].locked is orderly
            stay.set()
            await cluster.world.clock.sleep(1)

    simulate_cluster(work)


def test_what_a_member_that_left_had_pulled_is_not_consumed_yet():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with cluster.consumer(GROUP) as reader:
            queue = MessageQueue(TOPIC, message.broker_name, 0)
            await reader.commit(queue, 0)
            await reader.pull(queue, 0)
        found = await verdict_of(cluster, message)
        assert judged(found) == (Reason.NOT_YET, Certainty.LIKELY)
        assert (found.facts.pulled, found.facts.committed) == (1, 0)

    simulate_cluster(work)


def test_what_was_pulled_before_a_reset_is_not_consumed_yet():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with cluster.consumer(GROUP) as reader:
            queue = MessageQueue(TOPIC, message.broker_name, 0)
            await reader.pull(queue, 0)
            await reader.commit(queue, 1)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            await client.admin.create_group(cluster.broker_address, GroupConfig(GROUP))
            await client.admin.reset_offsets(GROUP, TOPIC, OffsetTarget.earliest())
        found = await verdict_of(cluster, message)
        assert judged(found) == (Reason.NOT_YET, Certainty.CERTAIN)
        assert (found.facts.pulled, found.facts.committed) == (0, 0)

    simulate_cluster(work)


@pytest.mark.parametrize("trace", [False, True])
def test_failed_waiting_and_consumed_after_two_failures(trace):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message, bad = await send(cluster), 2

        async def handle(message):
            if message.reconsume_times < bad:
                raise ReconsumeLater

        async with member(cluster, handle=handle, trace=trace):
            await cluster.world.clock.sleep(6)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.WAITING_RETRY, Certainty.CERTAIN)
            assert (found.copy.stage, found.copy.failures) == (Stage.DELAYED, 1)
            assert found.copy.due_ms == found.copy.stored_ms + 10_000
            await cluster.world.clock.sleep(120)
            found = await verdict_of(cluster, message)
            if trace:
                assert judged(found) == (Reason.CONSUMED, Certainty.CERTAIN)
                assert found.attempt.failures == 2
                assert [each.success for each in found.facts.tries] == [False, False, True]
            else:
                assert judged(found) == (Reason.CONSUMED_AFTER_RETRIES, Certainty.LIKELY)
                assert (found.copy.stage, found.copy.failures) == (Stage.RETRY, 2)
                assert found.copy.committed > found.copy.queue_offset
            stages = [(each.stage, each.failures) for each in found.facts.copies]
            assert stages == [
                (Stage.DELAYED, 1), (Stage.RETRY, 1), (Stage.DELAYED, 2), (Stage.RETRY, 2)
            ]  # fmt: skip

    simulate_cluster(work, settings=LEVELS)


def test_a_retry_that_is_due_while_the_group_is_offline():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with member(cluster, handle=fails):
            await cluster.world.clock.sleep(6)
        await cluster.world.clock.sleep(60)
        found = await verdict_of(cluster, message)
        assert judged(found) == (Reason.WAITING_RETRY, Certainty.LIKELY)
        assert (found.copy.stage, found.copy.failures) == (Stage.RETRY, 1)
        assert (found.copy.committed or 0) <= found.copy.queue_offset

    simulate_cluster(work, settings=LEVELS)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_dead_letter_and_questions_about_each_copy(orderly):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with member(cluster, handle=fails, max_tries=1, orderly=orderly, suspend_s=1):
            await cluster.world.clock.sleep(60)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.DEAD_LETTER, Certainty.CERTAIN)
            assert (found.copy.topic, found.copy.stage) == (f"%DLQ%{GROUP}", Stage.DEAD_LETTER)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            for topic, expected in ((f"%DLQ%{GROUP}", Kind.DEAD_LETTER), (f"%RETRY%{GROUP}", Kind.RETRY)):
                if orderly and expected is Kind.RETRY:
                    continue
                copy = (await client.admin.query_unique(topic, message.message_id))[0]
                asked = await found_of(cluster, copy)
                assert asked.kind is expected
                assert asked.message.offset_id == message.offset_id
                assert [judged(each) for each in asked.verdicts] == [judged(found)]

    simulate_cluster(work, settings=LEVELS)


def test_filtered_by_tag_now_or_later():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster, tags="TagB")
        async with member(cluster, topics={TOPIC: "TagA || TagC"}, handle=works):
            await cluster.world.clock.sleep(12)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.FILTERED, Certainty.LIKELY)
            assert found.facts.subscription.expression == "TagA || TagC"
            now_ms = cluster.world.clock.now_ms()
            assert found.facts.subscribed_ms is None or now_ms - 20_000 < found.facts.subscribed_ms <= now_ms
            facts = (await found_of(cluster, message)).message
            assert "the present subscription (TAG TagA || TagC), in force since " in sentence(facts, found)

    simulate_cluster(work)


def test_filtered_by_the_brokers_sql92():
    pytest.importorskip("gantrymq_filter_sql92")

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        low = await send(cluster, properties={"price": "1"})
        high = await send(cluster, properties={"price": "10"})
        async with member(cluster, topics={TOPIC: "price > 5"}, expression_type="SQL92", handle=works):
            await cluster.world.clock.sleep(12)
            assert judged(await verdict_of(cluster, low)) == (Reason.FILTERED, Certainty.LIKELY)
            assert judged(await verdict_of(cluster, high)) == (Reason.PASSED, Certainty.LIKELY)

    simulate_cluster(work)


def test_skipped_by_a_reset_is_never_consumed():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(12)
        message = await send(cluster)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            queue = MessageQueue(TOPIC, message.broker_name, 0)
            await client.admin.commit_offset(GROUP, queue, 1)
        found = await verdict_of(cluster, message)
        assert judged(found) == (Reason.PASSED, Certainty.LIKELY)

    simulate_cluster(work)


def test_broadcasting_members_tell_their_positions():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with member(cluster, handle=works, broadcasting=True, offsets_folder="/offsets"):
            await cluster.world.clock.sleep(12)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.BROADCASTING, Certainty.UNKNOWN)
            assert [each.committed for each in found.facts.positions] == [1]

    simulate_cluster(work)


def test_groups_by_what_is_to_be_done():
    """A group that never committed in the queue, one that is behind, one that has passed; page by page."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        message = await send(cluster)
        queue = MessageQueue(TOPIC, message.broker_name, message.queue_id)
        other = MessageQueue(TOPIC, message.broker_name, 1 - message.queue_id)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            for group, place, offset in (("passed", queue, 1), ("behind", queue, 0), ("elsewhere", other, 0)):
                await client.admin.create_group(cluster.broker_address, GroupConfig(group))
                await client.admin.commit_offset(group, place, offset)
        found = await found_of(cluster, message)
        assert [(each.group, each.reason) for each in found.verdicts] == [
            ("behind", Reason.NOT_YET),
            ("passed", Reason.PASSED),
            ("elsewhere", Reason.NO_POSITION),
        ]
        page = await found_of(cluster, message, start=1, most=1)
        assert [each.group for each in page.verdicts] == ["elsewhere"]
        assert (page.group_count, page.others) == (3, ("behind", "passed"))

    simulate_cluster(work)


def test_delayed_messages_before_and_after_their_delivery():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            sent = await client.producer("shop").send(Message(TOPIC, b"later", delay_level=3))
            waiting = (await client.admin.query_unique("SCHEDULE_TOPIC_XXXX", sent.message_id))[0]
            found = await found_of(cluster, waiting)
            assert (found.kind, found.message, found.verdicts) == (Kind.DELAYED, None, ())
            assert found.due_ms == waiting.store_timestamp + 10_000
            async with member(cluster, handle=works):
                await cluster.world.clock.sleep(30)
            found = await found_of(cluster, waiting)
            assert (found.kind, found.message.queue.topic) == (Kind.DELAYED, TOPIC)
            assert [each.reason for each in found.verdicts] == [Reason.PASSED]

    simulate_cluster(work, settings=LEVELS)


def test_a_message_found_by_its_offset_id():
    """`view_message` does not tell the broker's name."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(12)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            viewed = await client.admin.view_message(message.offset_id)
        found = await verdict_of(cluster, viewed)
        assert judged(found) == (Reason.PASSED, Certainty.LIKELY)

    simulate_cluster(work)


def test_a_message_without_a_unique_id_cannot_be_told_passed():
    """Its copies cannot be found."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await cluster.put(TOPIC, b"plain")
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(12)
        (message,) = await cluster.pull(TOPIC)
        found = await found_of(cluster, message)
        assert [(each.fact, each.why) for each in found.missing] == [(Fact.MESSAGE, "no-unique-id")]
        (verdict,) = found.verdicts
        assert judged(verdict) == (Reason.UNKNOWN, Certainty.UNKNOWN)
        assert verdict.lacking == {Fact.MESSAGE}

    simulate_cluster(work)


def test_a_deadline_that_has_passed_makes_everything_unknown():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(12)
        found = await found_of(cluster, message, deadline_s=0)
        assert {each.why for each in found.missing} == {"deadline"}
        assert all(each.reason is Reason.UNKNOWN for each in found.verdicts)

    simulate_cluster(work)


def test_half_messages_and_what_became_of_them():
    pytest.importorskip("gantrymq_transaction")

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with Client(cluster.namesrv, world=cluster.world, trace=True) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.UNKNOWN)
            half = {}
            for state in (TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN):
                async with producer.transaction(Message(TOPIC, b"1")) as transaction:
                    transaction.state = state
                half[state] = (await client.admin.query_unique("RMQ_SYS_TRANS_HALF_TOPIC", transaction.id))[0]
            async with member(cluster, handle=works):
                await cluster.world.clock.sleep(12)
        found = await found_of(cluster, half[TransactionState.COMMIT])
        assert (found.kind, found.message.queue.topic) == (Kind.HALF, TOPIC)
        assert [each.reason for each in found.verdicts] == [Reason.PASSED]
        for state, decided in ((TransactionState.ROLLBACK, "ROLLBACK_MESSAGE"), (TransactionState.UNKNOWN, "UNKNOW")):
            found = await found_of(cluster, half[state])
            assert (found.kind, found.message, found.verdicts, found.transaction) == (Kind.HALF, None, (), decided)

    simulate_cluster(work)


def test_a_copy_whose_original_is_gone():
    """Only its group is told of: the others are not known to have had the message."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with member(cluster, handle=fails, max_tries=0):
            await cluster.world.clock.sleep(12)
        async with member(cluster, group="other", handle=works):
            await cluster.world.clock.sleep(12)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            letter = (await client.admin.query_unique(f"%DLQ%{GROUP}", message.message_id))[0]
            await client.admin.delete_topic(TOPIC)
            found = await found_of(cluster, letter)
        assert (found.kind, [(each.group, *judged(each)) for each in found.verdicts]) == (
            Kind.DEAD_LETTER,
            [(GROUP, Reason.DEAD_LETTER, Certainty.CERTAIN)],
        )

    simulate_cluster(work)


def test_a_message_that_was_stored_twice():
    """A trace names only the unique id."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster, trace=True)
        await cluster.put(TOPIC, b"1", properties={"UNIQ_KEY": message.message_id})
        async with member(cluster, handle=works, trace=True):
            await cluster.world.clock.sleep(12)
        found = await found_of(cluster, message)
        assert found.message.same_id == 1
        assert [judged(each) for each in found.verdicts] == [(Reason.CONSUMED, Certainty.LIKELY)]

    simulate_cluster(work)


def test_groups_that_read_a_light_queue():
    pytest.importorskip("gantrymq_storage_mmap")

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        for _ in range(2):
            message = await send(cluster, system_properties={"INNER_MULTI_DISPATCH": "%LMQ%device,%LMQ%nobody"})
        async with Client(cluster.namesrv, world=cluster.world) as client:
            await client.admin.create_group(cluster.broker_address, GroupConfig("mqtt"))
            queue = MessageQueue("%LMQ%device", message.broker_name, 0)
            for committed, passed in ((1, False), (2, True)):
                cluster.broker.offsets.commit("mqtt", Queue(queue.topic, 0), committed)
                found = await found_of(cluster, message)
                assert found.complete
                (reader,) = found.light
                assert attrs.astuple(reader) == ("%LMQ%device", 1, "mqtt", committed)
                assert reader.passed is passed

    simulate_cluster(work, settings={"store": "mmap", "enableLmq": True, "enableMultiDispatch": True})
