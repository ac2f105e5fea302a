"""A message that no other broker name can take: an acting master sends nothing behind it, which would come again."""

from collections import Counter

from acting_groups import delayed, simulate_group, timed
from ha_pairs import service

from gantrymq.model.names import HALF_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_replication.acting.acting_service import ActingService


def test_nothing_behind_a_delayed_message_without_another_broker_is_sent():
    async def main(group):
        group.master.cluster.broker.topics.put(TopicConfig("U", read_queues=4, write_queues=4))
        for number in range(10):
            topic = "U" if number == 3 else "T"
            await group.master.send(b"%d" % number, topic, UNIQ_KEY=f"d{number}", **delayed(2))
        await group.master.send(b"other level", UNIQ_KEY="o", **delayed(3))
        await group.copied()
        group.master.process.kill()
        await group.clock.sleep(20)
        assert sorted(body for body, _ in await group.other.received()) == [b"0", b"1", b"2"]
        assert "topic U" in service(group.slave.cluster, ActingService).problem
        await group.clock.sleep(12)
        assert b"other level" in dict(await group.other.received())
        await group.master.start()
        await group.copied()
        await group.clock.sleep(5)
        both = [*await group.other.received(), *await group.master.received(), *await group.master.received("U")]
        assert Counter(body for body, _ in both) == Counter([b"%d" % number for number in range(10)] + [b"other level"])

    simulate_group(main)


def test_nothing_behind_a_timed_message_without_another_broker_is_sent():
    async def main(group):
        group.master.cluster.broker.topics.put(TopicConfig("U", read_queues=4, write_queues=4))
        at = timed(group.clock, 6)
        due = [b"earlier", *(b"%d" % number for number in range(40)), b"later"]
        await group.master.send(b"earlier", UNIQ_KEY="e", **timed(group.clock, 5))
        for number in range(40):
            await group.master.send(b"%d" % number, "U" if number == 9 else "T", UNIQ_KEY=f"t{number}", **at)
        await group.master.send(b"later", UNIQ_KEY="l", **timed(group.clock, 8))
        await group.copied()
        group.master.process.kill()
        await group.clock.sleep(15)
        sent = [body for body, _ in await group.other.received()]
        assert sorted(sent) == sorted(due[:10])
        await group.master.start()
        await group.copied()
        await group.clock.sleep(5)
        both = [*await group.other.received(), *await group.master.received(), *await group.master.received("U")]
        assert Counter(body for body, _ in both) == Counter(due)

    simulate_group(main)


def test_a_message_that_is_rolled_late_comes_in_its_turn():
    async def main(group):
        for topic in ("U", "V"):
            group.master.cluster.broker.topics.put(TopicConfig(topic, read_queues=4, write_queues=4))
        clock = group.clock
        await group.master.send(b"blocks", "U", UNIQ_KEY="u", **timed(clock, 5))
        await group.master.send(b"rolled", UNIQ_KEY="r", **timed(clock, 33))
        await group.master.send(b"blocks too", "V", UNIQ_KEY="v", **timed(clock, 40))
        await group.copied()
        group.master.process.kill()
        await clock.sleep(60)
        assert await group.other.received() == []
        group.other.cluster.broker.topics.put(TopicConfig("U", read_queues=4, write_queues=4))
        await clock.sleep(30)
        assert [body for body, _ in await group.other.received()] == [b"rolled"]
        await group.master.start()
        await group.copied()
        await clock.sleep(15)
        both = [
            each for member in (group.other, group.master) for topic in "TUV" for each in await member.received(topic)
        ]
        assert Counter(body for body, _ in both) == Counter([b"blocks", b"rolled", b"blocks too"])

    simulate_group(main, timerRollWindowSlot=10)


def test_half_messages_behind_one_without_another_broker_stay_with_their_master():
    async def main(group):
        group.master.cluster.broker.topics.put(TopicConfig("U", read_queues=4, write_queues=4))
        for number in range(6):
            topic = "U" if number == 2 else "T"
            await group.master.send(b"half", topic, UNIQ_KEY=f"h{number}", TRAN_MSG="true", PGROUP="p")
        await group.copied()
        await group.clock.sleep(3)
        group.master.process.kill()
        await group.clock.sleep(20)
        assert group.other.cluster.store.bounds(Queue(HALF_TOPIC, 0)).max_offset == 2
        await group.master.start()
        await group.copied()
        assert group.master.cluster.broker.offsets.committed("CID_RMQ_SYS_TRANS", Queue(HALF_TOPIC, 0)) == 2

    simulate_group(main, transactionCheckInterval=2000, transactionTimeOut=3000)
