"""Message traces: the official admin tool reads ours, we read those of official clients. Traceparent is preserved."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Driver, GantryServer, MqAdmin, create_topic
from polling import wait_until

from gantrymq.client import (
    Client,
    Message,
    NoRoute,
    ReceivedMessage,
    ReconsumeLater,
    TransactionState,
    decode_trace,
)
from gantrymq.client.tracing.records import EndTransaction, Pub, SubAfter, SubBefore, encode_trace
from gantrymq.model.names import TRACE_TOPIC

pytestmark = pytest.mark.interop

TRACES_S = 60.0  # clients write them every 5 s
Rows = set[tuple[str, str, str]]  # type, group, status


async def in_trace_topic(namesrv: str) -> list[ReceivedMessage]:
    """Return all messages of the trace topic, which the first trace creates."""
    found: list[ReceivedMessage] = []
    async with Client(namesrv) as client, client.reader() as reader:
        try:
            queues = await reader.queues(TRACE_TOPIC)
        except NoRoute:
            return []
        for queue in queues:
            offset = 0
            while messages := (await reader.pull(queue, offset)).messages:
                found += messages
                offset = messages[-1].queue_offset + 1
    return found


@pytest.mark.parametrize("where", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", "ours"])
def test_the_admin_tool_reads_what_our_producer_and_consumer_wrote(
    where: str, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer, topic: str, tmp_path: Path
) -> None:
    namesrv = ours.namesrv if where == "ours" else java_servers(where)[0]
    create_topic(namesrv, topic)
    producers, consumers = f"{topic}-p", f"{topic}-c"

    async def work() -> tuple[list[str], str]:
        async with Client(namesrv, trace=True) as client:
            producer = client.transaction_producer(producers, lambda _: TransactionState.COMMIT)
            await client.wait_ready(topic)
            sent = [(await producer.send(Message(topic, b"single", tags="TagA", keys=("k1", "k2")))).message_id]
            sent += (await producer.send_batch([Message(topic, b"first"), Message(topic, b"second")])).message_ids
            async with producer.transaction(Message(topic, b"decided")) as transaction:
                pass
            sent.append(transaction.id)
            seen: dict[str, int] = {}
            done = asyncio.Event()
            failing = sent[0]

            async def handle(message: ReceivedMessage) -> None:
                seen[message.message_id] = seen.get(message.message_id, 0) + 1
                if set(seen) == set(sent) and seen[failing] == 2:
                    done.set()
                if message.message_id == failing and seen[failing] == 1:
                    raise ValueError("the first time it fails")

            consumer = client.consumer(consumers, topic, consume_from="first")
            running = asyncio.create_task(consumer.run(handle))
            async with asyncio.timeout(90):
                await done.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert consumer.trace is not None and consumer.trace.dropped == 0
        return sent, failing

    sent, failing = asyncio.run(work())
    with MqAdmin("5.3.3", tmp_path, namesrv) as tool:
        for message_id in sent:
            # A set: a broker that waits for a second may check the transaction, and deliver it twice.
            wanted = {("Pub", producers, "success"), ("Sub", consumers, "success")}
            if message_id == failing:
                wanted.add(("Sub", consumers, "failed"))
            shown: list[str] = []

            def traced(message_id: str = message_id, wanted: Rows = wanted, shown: list[str] = shown) -> bool:
                shown[:] = tool.run("queryMsgTraceById", "-n", namesrv, "-i", message_id).splitlines()
                rows = [line.split() for line in shown if line.startswith(("Pub", "Sub"))]
                return {(row[0], row[1], row[-1]) for row in rows} == wanted

            wait_until(traced, f"traces of {message_id}", TRACES_S, lambda shown=shown: "\n".join(shown))


@pytest.mark.parametrize("where", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", "ours"])
def test_traceparent_stays_with_each_message_of_a_batch_and_through_retries(
    where: str, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer, topic: str, tmp_path: Path
) -> None:
    namesrv = ours.namesrv if where == "ours" else java_servers(where)[0]
    create_topic(namesrv, topic)
    parents = {f"{number}": f"00-{number:032x}-{number:016x}-01" for number in range(1, 4)}

    async def work() -> list[tuple[str, str, int]]:
        seen: list[tuple[str, str, int]] = []
        done = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            seen.append((message.body.decode(), message.properties["traceparent"], message.reconsume_times))
            if len(seen) == 6:
                done.set()
            if message.reconsume_times == 0:
                raise ReconsumeLater(1)

        async with Client(namesrv) as client:
            await client.wait_ready(topic)
            messages = [Message(topic, body.encode(), properties={"traceparent": own}) for body, own in parents.items()]
            await client.producer(f"{topic}-p").send_batch(messages)
            running = asyncio.create_task(client.consumer(f"{topic}-c", topic, consume_from="first").run(handle))
            async with asyncio.timeout(90):
                await done.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return sorted(seen)

    seen = asyncio.run(work())
    assert seen == [(body, parents[body], tries) for body in sorted(parents) for tries in (0, 1)]
    pulled = Driver("5.3.3", tmp_path, namesrv).pull(topic)
    assert {str(event["body"]): event["properties"]["traceparent"] for event in pulled} == parents


@pytest.mark.parametrize("version", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def test_we_read_what_official_clients_wrote(version: str, ours: GantryServer, topic: str, tmp_path: Path) -> None:
    create_topic(ours.namesrv, topic)
    driver = Driver(version, tmp_path, ours.namesrv)
    with driver.start("exchange", "--trace", topic=topic, group=f"{topic}-group", count=2) as clients:
        sent = clients.wait_for(lambda p: p.of("sent") if len(p.of("sent")) == 2 else [], "2 messages")
        ids = {str(event["msgId"]): event for event in sent}

        def records() -> list[Pub | SubBefore | SubAfter | EndTransaction]:
            found = asyncio.run(in_trace_topic(ours.namesrv))
            for message in found:
                assert encode_trace(decode_trace(message.body)).encode() == message.body
            return [record for message in found for record in decode_trace(message.body) if record.message_id in ids]

        wait_until(lambda: len(records()) == 6, "3 records for each message", TRACES_S)
        for record in records():
            index = ids[record.message_id]["index"]
            assert record.keys == f"key{index}"
            if isinstance(record, Pub):
                assert (record.topic, record.tags, record.group, record.success) == (
                    topic,
                    "tag",
                    "interop-traced",
                    True,
                )
                assert record.offset_id == ids[record.message_id]["offsetMsgId"]
            else:
                assert record.group == f"{topic}-group"
        clients.close_input()
        clients.finish()
