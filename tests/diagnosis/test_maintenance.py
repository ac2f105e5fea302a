"""Cleanup on demand over the wire: 306, 316 and 329; cold reads: 2003."""

from __future__ import annotations

import pytest
from broker_desk import body_of, topic_ext

from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq_diagnosis.operators.maintenance import DROPS_TOGETHER


def test_cleaning_says_what_was_removed_if_asked(broker):
    async def main(desk):
        for code in (306, 316, 329):
            answer = await desk.ask(code)
            assert (answer.code, answer.remark) == (0, None)
        said = {code: (await desk.ask(code, {"report": "true"})).remark for code in (306, 316, 329)}
        assert said == {
            306: "removed 0 queues whose messages have left the log",
            316: "removed the queues of 0 topics that do not exist",
            329: "deleting 0 log files, 0 bytes",
        }

    broker(main)


@pytest.mark.parametrize("code", [306, 329])
def test_cleaning_needs_a_store_that_cleans(broker, bare_store, code):
    async def main(desk):
        answer = await desk.ask(code)
        assert (answer.code, "does not support cleanup on demand" in answer.remark) == (3, True)

    broker(main, plugins=[bare_store], store="bare")


def test_no_cold_read_is_throttled(broker):
    async def main(desk):
        assert body_of(await desk.ask(2003)) == {  # as the golden run of mqadmin shows it: 67-getColdDataFlowCtrInfo
            "globalAcc": 0,
            "cgColdReadThreshold": 3145728,
            "configTable": {},
            "globalColdReadThreshold": 104857600,
            "runtimeTable": {},
        }

    broker(main)


def test_queues_without_a_topic_are_cleaned(broker):
    async def main(desk):
        gone = [f"Gone{number}" for number in range(2 * DROPS_TOGETHER + 1)]
        for topic in ("Stays", *gone):
            await desk.send(topic)
        for topic in gone:
            del desk.tables.topics._topics[topic]
        said = (await desk.ask(316, {"report": "true"})).remark
        assert said == f"removed the queues of {len(gone)} topics that do not exist"
        assert {queue.topic for queue in desk.server.store.queues()} == {"Stays"}

    broker(main)


def test_a_replica_keeps_queues_without_a_topic(broker):
    """Its topics come later than its records."""

    async def main(desk):
        assert (await desk.ask(17, topic_ext("A"))).code == 0
        assert (await desk.send("A")).code == 0
        role = desk.broker.role
        await role.change(Role.REPLICA, 1)
        desk.tables.topics.delete("A")
        assert (await desk.ask(316, {"report": "true"})).remark == "a replica removes no queues"
        assert Queue("A", 0) in list(desk.server.store.queues())
        await role.change(Role.MASTER, 2)
        assert (await desk.ask(316)).code == 0
        assert Queue("A", 0) not in list(desk.server.store.queues())

    broker(main)
