"""Counters by name: 315."""

from __future__ import annotations

from broker_desk import body_of, pull_ext, three_messages_one_consumed


def test_counters_by_name(broker):
    async def main(desk):
        async def counter(name, key):
            answer = await desk.ask(315, {"statsName": name, "statsKey": key})
            return body_of(answer)["statsMinute"]["sum"] if answer.code == 0 else (answer.code, answer.remark)

        await three_messages_one_consumed(desk)
        await desk.clock.sleep(11)
        assert await counter("TOPIC_PUT_NUMS", "T") == 3
        assert await counter("TOPIC_PUT_SIZE", "T") > 3 * 90
        assert await counter("GROUP_GET_NUMS", "T@CG") == 3
        assert await counter("BROKER_PUT_NUMS", "DefaultCluster") == 3
        assert await counter("BROKER_GET_NUMS", "DefaultCluster") == 3
        assert await counter("TOPIC_PUT_NUMS", "Nowhere") == (1, "The stats <TOPIC_PUT_NUMS> <Nowhere> not exist")
        code, sentence = await counter("DLQ_PUT_NUMS", "T")
        assert code == 1
        assert "DLQ_PUT_NUMS is not kept" in sentence

    broker(main)


def test_counters_of_a_deleted_topic_are_forgotten(broker):
    async def main(desk):
        await three_messages_one_consumed(desk)
        assert (await desk.ask(215, {"topic": "T"})).code == 0
        assert desk.tables.stats.gets.known() == desk.tables.stats.puts.known() == []
        await desk.ask(11, pull_ext("T"))

    broker(main)
