"""Calls of the transaction service: half messages, decisions (request 37), and checks by the timer."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from broker_desk import pull_ext, records, run_broker
from memory_transactions import MemoryTransactions

from gantrymq.broker.sending.prepare import SendPreparation
from gantrymq.loose_json import dumps
from gantrymq.model import properties as props

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ID1\x02TAGS\x01red\x02"


@pytest.fixture
def run(plugins):
    """``run(main)`` runs ``await main(desk, service)`` against a broker with the service in memory."""

    def run(main, service=None, **values):
        service = service or MemoryTransactions()
        with_it = attrs.evolve(plugins, transactions={"memory": lambda: service})
        return run_broker(with_it, lambda desk: main(desk, service), **values)

    return run


async def half(desk, topic="T"):
    """Send a half message; return the fields with which its producer ends it."""
    answer = await desk.send(topic, b"body", properties=HALF, sys_flag=4)
    assert answer.code == 0
    return {
        "producerGroup": "PG",
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
        "msgId": "ID1",
        "transactionId": "ID1",
    }


async def end(desk, fields, decision):
    return await desk.ask(37, {**fields, "commitOrRollback": str(decision)})


def test_a_message_is_seen_once_it_is_committed(run):
    async def main(desk, service):
        await desk.send("T", b"other")
        fields = await half(desk)
        assert [bytes(each.body) for each in records(await desk.pull("T"))] == [b"other"]
        assert (await end(desk, fields, 8)).code == 0
        _, message = records(await desk.pull("T"))
        assert bytes(message.body) == b"body"
        assert message.sys_flag & 0xC == 8
        assert message.prepared_offset == int(fields["commitLogOffset"])
        assert props.decode(message.properties_bytes)["TAGS"] == "red"

    run(main)


def test_a_message_is_never_seen_once_it_is_rolled_back(run):
    async def main(desk, service):
        await desk.send("T", b"other")
        assert (await end(desk, await half(desk), 12)).code == 0
        assert [bytes(each.body) for each in records(await desk.pull("T"))] == [b"other"]
        assert not service.open

    run(main)


def test_commit_and_its_mark_are_one_append(run, plugins):
    async def main(desk, service):
        fields = await half(desk)
        ends = desk.server.store.state().max_log_offset
        await end(desk, fields, 8)
        first, second = desk.server.store.scan(ends, desk.server.store.state().max_log_offset)
        assert (first.topic, second.topic) == ("T", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
        assert first.log_offset + first.size == second.log_offset

    run(main)


def test_half_messages_that_are_alike_are_prepared_each_without_checking_all_again(run, monkeypatch):
    checks = []
    prepare = SendPreparation.prepare
    monkeypatch.setattr(SendPreparation, "prepare", lambda self, asked: checks.append(asked) or prepare(self, asked))

    async def main(desk, service):
        fields = [await half(desk) for _ in range(4)]
        assert len(checks) == 3
        fields += await asyncio.gather(*(half(desk) for _ in range(8)))
        assert (len(checks), service.open) == (3, set(range(12)))
        assert [each["tranStateTableOffset"] for each in fields] == [str(number) for number in range(12)]
        assert [(await end(desk, each, 8)).code for each in fields] == [0] * 12
        assert {each.sys_flag & 0xC for each in records(await desk.pull("T"))} == {8}
        desk.server.settings.set("rejectTransactionMessage", True, "test")
        answer = await desk.send("T", b"body", properties=HALF, sys_flag=4)
        assert (answer.code, "rejectTransactionMessage" in answer.remark) == (16, True)

    run(main)


def test_another_group_cannot_end_it(run):
    async def main(desk, service):
        fields = await half(desk)
        answer = await end(desk, {**fields, "producerGroup": "Others"}, 8)
        assert (answer.code, service.open) == (1, {0})

    run(main)


def test_a_state_that_decides_nothing_gets_no_answer(run):
    async def main(desk, service):
        asked = asyncio.ensure_future(end(desk, await half(desk), 0))
        await desk.clock.sleep(5)
        assert not asked.done()
        asked.cancel()

    run(main)


def test_the_timer_asks_a_producer_of_the_group(run):
    async def main(desk, service):
        producer = desk.peer()
        await producer.ask(34, None, dumps({"clientID": "p1", "producerDataSet": [{"groupName": "PG"}]}))
        fields = await half(desk)
        await desk.clock.sleep(30)
        (asked,) = producer.asked
        assert (asked.code, asked.ext["commitLogOffset"]) == (39, fields["commitLogOffset"])
        assert not desk.asked
        answer = await end(producer, {**fields, "fromTransactionCheck": "true"}, 8)
        assert answer.code == 0
        await desk.clock.sleep(60)
        assert (len(producer.asked), service.checks) == (1, 3)

    run(main)


def test_a_check_that_fails_is_counted_and_made_again(run):
    class Failing(MemoryTransactions):
        async def check(self, now_ms):
            self.checks += 1
            raise KeyError("a bug")

    async def main(desk, service):
        await desk.clock.sleep(5.5)
        assert service.checks == 5
        assert (
            desk.tables.stats.plugin_errors[("transaction service", f"{Failing.__module__}.{Failing.__qualname__}")]
            == 5
        )

    run(main, Failing(), transactionCheckInterval=1000)


def test_without_a_service_request_37_says_what_is_missing(broker):
    async def main(desk):
        answer = await desk.ask(37, {"producerGroup": "PG"})
        assert answer.code == 3
        assert (
            "install it with: pip install gantrymq-transaction (in a clone of GantryMQ: pip install ./plugins"
            in answer.remark
        )

    broker(main)


def test_a_pull_sees_nothing_of_what_is_undecided(run):
    async def main(desk, service):
        await desk.send("T", b"other")
        waiting = desk.later(11, pull_ext("T", 1, wait_s=20))
        fields = await half(desk)
        await desk.clock.sleep(1)
        assert not waiting.done()
        await end(desk, fields, 8)
        assert [bytes(each.body) for each in records(await waiting)] == [b"body"]

    run(main)
