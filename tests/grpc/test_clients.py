"""Telemetry streams, heartbeats and the life of clients, and what the broker asks them."""

import asyncio

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_broker import (
    TRANSACTIONS,
    beat,
    checks,
    consumer_settings,
    decide,
    half,
    producer_settings,
    receive_request,
    signed,
)

from gantrymq.client import BrokerRefused
from gantrymq.errors import CallTimeout, RequestRefused
from gantrymq_grpc.definitions import (
    METHODS,
    ClientType,
    Code,
    Resource,
    Settings,
    TelemetryCommand,
    TransactionResolution,
)
from gantrymq_grpc.service import clients as limits
from gantrymq_grpc.service import streams

UNAVAILABLE = 14


def members(served, group="G"):
    return [each.client_id for each in served.broker.clients.consumers(group)]


def producers(served, topic="T"):
    return [each.client_id for each in served.broker.clients.producers(topic)]


def known(served):
    """Return the ids of all connections that the broker lists."""
    return [each.client_id for each in served.broker.clients.connections() if each.client_id]


# --- settings ---------------------------------------------------------------------------------------------------------


def test_settings_that_change_move_the_client_to_other_groups(grpc_broker):
    async def main(served):
        served.topic("U")
        sdk = await served.sdk()
        stream = await sdk.consumer("G", "T")
        assert (members(served), list(served.broker.clients.consumer_group("G").subscriptions)) == (["c1"], ["T"])
        stream.send(TelemetryCommand(settings=consumer_settings("G", "U", expression="a || b")))
        assert (await stream.next()).status.code == Code.OK
        (subscription,) = served.broker.clients.consumer_group("G").subscriptions.values()
        assert (subscription.topic, subscription.expression) == ("U", "a || b")
        stream.send(TelemetryCommand(settings=consumer_settings("G", "U", expression="c")))
        await stream.next()
        assert served.broker.clients.subscription("G", "U").expression == "c"
        stream.send(TelemetryCommand(settings=consumer_settings("H", "T", kind=ClientType.SIMPLE_CONSUMER)))
        await stream.next()
        assert (members(served), members(served, "H")) == ([], ["c1"])
        assert served.broker.clients.consumer_group("H").consume_type == "CONSUME_ACTIVELY"
        stream.send(TelemetryCommand(settings=producer_settings("T", "U")))
        await stream.next()
        assert (members(served, "H"), producers(served), producers(served, "U")) == ([], ["c1"], ["c1"])
        stream.send(TelemetryCommand(settings=producer_settings("U")))
        await stream.next()
        assert (producers(served), producers(served, "U")) == ([], ["c1"])
        assert known(served) == ["c1"]

    grpc_broker(main)


def test_settings_are_sent_again_after_the_last_route_of_a_start(grpc_broker):
    """Node's SDK opens its stream after the first of its routes, and waits for settings only after the last one."""

    async def ask(sdk, topic):
        request = METHODS["QueryRoute"].request(topic=Resource(name=topic))
        assert (await sdk.call("QueryRoute", request)).status.code == Code.OK

    async def main(served):
        served.topic("U")
        sdk, stranger = await served.sdk(), await served.sdk("c2")
        for settings in (producer_settings("T", "U"), consumer_settings("G", "T", "U")):
            stream, first = await sdk.telemetry(settings)
            await ask(sdk, "T")
            await served.clock.sleep(0.3)
            await ask(sdk, "U")
            await ask(stranger, "U")  # it has sent no settings
            await served.clock.sleep(0.3)
            assert len(stream.all()) == 1
            await served.clock.sleep(1)
            assert len(stream.all()) == 2
            assert first.settings.WhichOneof("pub_sub") == stream.all()[1].settings.WhichOneof("pub_sub")
            assert stream.all()[1].settings.backoff_policy == first.settings.backoff_policy
            await served.clock.sleep(10)
            await ask(sdk, "T")  # as each client does every half minute
            await served.clock.sleep(1)
            assert len(stream.all()) == 2
            await ask(sdk, "T")
            stream.send(TelemetryCommand(settings=settings))
            await ask(sdk, "T")
            assert (await sdk.call("NotifyClientTermination")).status.code == Code.OK
            await served.clock.sleep(1)
            assert len(stream.all()) == 3
            stream.end()

    grpc_broker(main)


def test_refused_settings_end_the_stream_and_leave_nothing_behind(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        many = [f"T{each}" for each in range(limits.MOST_NAMED + 1)]
        for settings, text in (
            (Settings(), "no publishing or subscription data"),
            (consumer_settings("G", "a b"), "a b"),
            (consumer_settings("", "T"), "group"),
            (consumer_settings("G", "RMQ_SYS_TRACE_TOPIC"), "system topic"),
            (consumer_settings("G", kind=99), "type: 99"),
            (consumer_settings("G", kind=ClientType.LITE_PUSH_CONSUMER), "lite"),
            (producer_settings(*many), "1001 topics"),
            (consumer_settings("G", *many), "1001 subscriptions"),
        ):
            stream, answer = await sdk.telemetry(settings)
            assert answer is None
            assert text in stream.stream.text
        assert (known(served), len(served.protocol._clients)) == ([], 0)

    grpc_broker(main)


def test_a_heartbeat_that_the_broker_refuses_leaves_no_connection(grpc_broker):
    async def main(served):
        def refuse(heartbeat, client):
            raise RequestRefused(1, "not you")

        forget = served.broker.clients.on_heartbeat(refuse)
        stream, answer = await (await served.sdk()).telemetry(consumer_settings("G", "T"))
        assert (answer, "not you" in stream.stream.text) == (None, True)
        assert list(served.broker.clients.connections()) == []
        forget()
        assert await (await served.sdk()).consumer("G", "T")

    grpc_broker(main)


def test_clients_of_one_connection_are_bounded_by_the_memory_they_take(grpc_broker, monkeypatch):
    monkeypatch.setattr(limits, "MOST_OF_CONNECTION", 10 * 2800)
    monkeypatch.setattr(limits, "MOST_OF_ALL", 15 * 2800)

    async def main(served):
        first = await served.sdk()
        for number in range(30):
            stream, answer = await first.telemetry(consumer_settings("G", "T"), x_mq_client_id=f"a{number}")
            if answer is None:
                break
        assert (number, len(members(served))) == (10, 10)
        assert "use a connection for each client" in stream.stream.text
        assert (await first.call("NotifyClientTermination", x_mq_client_id="a0")).status.code == Code.OK
        assert (await first.telemetry(consumer_settings("G", "T"), x_mq_client_id="b"))[1]
        second = await served.sdk()
        for number in range(5):
            assert (await second.telemetry(consumer_settings("G", "T"), x_mq_client_id=f"c{number}"))[1]
        stream, answer = await second.telemetry(consumer_settings("G", "T"), x_mq_client_id="d")
        assert (answer, "too many clients" in stream.stream.text) == (None, True)
        first.client.transport.abort()  # its clients have no streams now, and make room
        await served.clock.sleep(1)
        assert (await second.telemetry(consumer_settings("G", "T"), x_mq_client_id="d"))[1]
        assert sorted(members(served)) == ["c0", "c1", "c2", "c3", "c4", "d"]

    grpc_broker(main)


@pytest.mark.parametrize("client_id", ["", " ", "é", "a\tb", "x" * 1025])
def test_a_client_id_that_is_no_text_is_refused(grpc_broker, client_id):
    async def main(served):
        sdk = await served.sdk(client_id)
        assert (await sdk.call("Heartbeat")).status.code == Code.CLIENT_ID_REQUIRED
        stream, answer = await sdk.telemetry(consumer_settings("G", "T"))
        assert answer.status.code == Code.CLIENT_ID_REQUIRED
        assert (await stream.next(), stream.stream.status) == (None, 0)

    grpc_broker(main)


def test_operators_see_clients_with_language_version_and_address(grpc_broker):
    async def main(served):
        await (await served.sdk("c1")).consumer("G", "T", expression="a")
        await (await served.sdk("c2", x_mq_language="node", x_mq_client_version="ä")).consumer("G", "T", expression="a")
        await (await served.sdk("p")).producer("T")
        async with served.cluster.client() as client, client.admin as admin:
            found = await admin.consumer_connections(served.cluster.broker_address, "G")
            rows = [(each.client_id, each.language, each.version) for each in found.clients]
            assert rows == [("c1", "JAVA", 429), ("c2", "OTHER", 413)]
            assert all(each.address.startswith("127.0.0.1:") for each in found.clients)
            assert (found.consume_type, found.subscriptions[0].expression) == ("CONSUME_PASSIVELY", "a")
            (producer,) = await admin.producer_connections(served.cluster.broker_address, "T")
            assert producer.client_id == "p"
            assert await admin.members(served.cluster.broker_address, "G") == ("c1", "c2")

    grpc_broker(main)


# --- life -------------------------------------------------------------------------------------------------------------


def test_a_client_without_heartbeats_goes_after_a_while_with_its_streams(grpc_broker):
    async def main(served):
        sdk, silent, idle = await served.sdk(), await served.sdk("silent"), await served.sdk("idle")
        await sdk.consumer("G", "T")
        stream = await silent.consumer("G", "T")
        await idle.telemetry(producer_settings())  # in no group
        for _ in range(10):
            await served.clock.sleep(10)
            assert await beat(sdk) == Code.OK
        assert members(served) == ["c1", "silent"]
        for _ in range(4):
            await served.clock.sleep(10)
            assert await beat(sdk) == Code.OK
        assert (members(served), len(served.protocol._clients), known(served)) == (["c1"], 1, ["c1"])
        assert (await stream.next(), stream.stream.status) == (None, UNAVAILABLE)
        assert "no heartbeat" in stream.stream.text
        assert await beat(silent) == Code.UNRECOGNIZED_CLIENT_TYPE
        await silent.consumer("G", "T")
        assert await beat(silent) == Code.OK

    grpc_broker(main)


def test_a_client_outlives_its_connection_until_its_heartbeats_are_missed(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        await sdk.consumer("G", "T")
        sdk.client.transport.abort()
        await served.clock.sleep(60)
        assert members(served) == ["c1"]
        again = await served.sdk()
        assert await beat(again) == Code.OK  # before its settings
        await again.consumer("G", "T")
        assert members(served) == ["c1"]
        (member,) = served.broker.clients.consumers("G")
        assert member.connection.peer == again.client.transport.get_extra_info("sockname")
        again.client.transport.abort()
        await served.clock.sleep(140)
        assert (members(served), known(served)) == ([], [])

    grpc_broker(main)


def test_the_end_of_a_client_gives_its_messages_back_and_keeps_its_stream(grpc_broker):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        stream = await sdk.consumer("G", "T")
        assert await sdk.receive() == []
        await sdk.send()
        (message,) = await sdk.receive(auto_renew=True)
        assert (await sdk.call("NotifyClientTermination")).status.code == Code.OK
        assert (await sdk.call("NotifyClientTermination")).status.code == Code.UNRECOGNIZED_CLIENT_TYPE
        assert await beat(sdk) == Code.UNRECOGNIZED_CLIENT_TYPE
        began = served.clock.monotonic()
        (again,) = await other.receive(polling=10)
        assert again.system_properties.message_id == message.system_properties.message_id
        assert served.clock.monotonic() - began < 2.5
        stream.end()
        assert (await stream.next(), stream.stream.status) == (None, 0)

    grpc_broker(main)


def test_requests_that_overtake_the_settings_are_served_by_their_fields(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        assert await sdk.receive(auto_renew=True) == []
        await sdk.send()
        (message,) = await sdk.receive(auto_renew=True)
        assert await beat(sdk) == Code.UNRECOGNIZED_CLIENT_TYPE
        changed = await sdk.change(message, 20)
        message.system_properties.receipt_handle = changed.receipt_handle
        assert (await sdk.ack(message)).code == Code.OK
        assert members(served) == []

    grpc_broker(main)


def test_a_user_who_is_deleted_loses_streams_and_held_receives_at_once(grpc_broker):
    delete_user = pytest.importorskip("gantrymq_access.administration").delete_user

    async def main(served):
        sdk, other = await served.sdk(**signed("alice")), await served.sdk("c2", **signed("bob"))
        stream, stays = await sdk.consumer("G", "T"), await other.consumer("G", "T")
        producer, _ = await (await served.sdk("c3", **signed("alice"))).telemetry(producer_settings("T"))
        receiving = sdk.open("ReceiveMessage", receive_request(polling=20))
        await served.clock.sleep(1)
        assert not receiving.ended
        async with served.cluster.client() as client, client.admin as admin:
            await delete_user(admin, served.cluster.broker_address, "alice")
        await served.clock.sleep(1)
        assert (await stream.next(), await producer.next()) == (None, None)
        assert (stream.stream.status, producer.stream.status) == (UNAVAILABLE, UNAVAILABLE)
        first, *rest = sdk.messages("ReceiveMessage", await sdk.client.ended(receiving))
        assert (first.status.code, "User:alice not found." in first.status.message) == (Code.UNAUTHORIZED, True)
        assert [each.WhichOneof("content") for each in rest] == ["delivery_timestamp"]
        assert (members(served), producers(served), stays.stream.ended) == (["c2"], [], False)
        _, answer = await sdk.telemetry(consumer_settings("G", "T"))
        assert (answer.status.code, answer.status.message) == (Code.UNAUTHORIZED, "User:alice is not found.")

    rights = ["Pub,Sub Topic:T", "Sub Group:G"]
    grpc_broker(main, users={"alice": rights, "bob": rights})


# --- questions of the broker ------------------------------------------------------------------------------------------


def test_a_transaction_is_checked_with_one_producer_until_one_answers(grpc_broker):
    async def main(served):
        served.topic("T", kind="TRANSACTION")
        one, two, consumer = await served.sdk("p1"), await served.sdk("p2"), await served.sdk("c")
        opened = [await one.producer("T"), await two.producer("T")]
        assert await consumer.receive() == []
        entry = await half(one)
        while not (number := sum(len(checks(each)) for each in opened)):
            await served.clock.sleep(1)
        assert number == 1
        await served.clock.sleep(6)
        assert [len(checks(each)) > 0 for each in opened] == [True, True]  # the other one, as the first is silent
        check = checks(opened[1])[-1]
        assert (check.message.topic.name, check.message.body) == ("T", b"half")
        assert check.message.system_properties.message_id == entry.message_id
        entry.transaction_id = check.transaction_id
        assert await decide(two, entry, checked=True) == Code.OK
        (message,) = await consumer.receive()
        assert message.body == b"half"
        number = sum(len(checks(each)) for each in opened)
        await served.clock.sleep(30)
        assert sum(len(checks(each)) for each in opened) == number

    grpc_broker(main, settings=TRANSACTIONS)


def test_a_producer_without_a_stream_is_not_asked(grpc_broker):
    """Also if its heartbeats come in time: a check that nothing can carry is not counted."""

    async def main(served):
        served.topic("T", kind="TRANSACTION")
        gone, stays = await served.sdk("p1"), await served.sdk("p2")
        (await gone.producer("T")).end()
        await half(stays)
        for _ in range(10):
            await served.clock.sleep(6)
            for each in (gone, stays):
                if each is gone or served.clock.monotonic() > 40:
                    assert await beat(gone) == Code.OK
        stream = await stays.producer("T")
        await served.clock.sleep(4)
        (check,) = checks(stream)
        assert check.message.user_properties.get("TRANSACTION_CHECK_TIMES") == "1"

    grpc_broker(main, settings=TRANSACTIONS)


def test_a_transaction_is_committed_after_a_restart_of_the_broker(gantrymq_simulation):
    pytest.importorskip("gantrymq_storage_mmap")
    from grpc_broker import GrpcBroker

    async def main(cluster):
        async with GrpcBroker(cluster) as served:
            served.topic("T", kind="TRANSACTION")
            sdk = await served.sdk()
            assert await sdk.receive() == []
            committed, rolled_back = await half(sdk, b"1"), await half(sdk, b"2")
        await cluster.restart()
        async with GrpcBroker(cluster) as served:
            sdk = await served.sdk()
            assert await decide(sdk, rolled_back, TransactionResolution.ROLLBACK) == Code.OK
            assert await decide(sdk, committed) == Code.OK
            (message,) = await sdk.receive()
            assert message.body == b"1"
            assert await sdk.receive() == []

    gantrymq_simulation(main, settings={"store": "mmap", **TRANSACTIONS})


def test_a_producer_that_does_not_read_is_sent_a_bounded_number_of_checks(grpc_broker, monkeypatch):
    monkeypatch.setattr(streams, "MOST_UNSENT_BYTES", 1_000_000)

    async def main(served):
        served.topic("T", kind="TRANSACTION")
        slow, quick, sender = await served.sdk("p1"), await served.sdk("p2"), await served.sdk("s")
        slow_stream = await slow.producer("T")
        slow.client.reads_streams = False
        quick_stream = await quick.producer("T")
        for number in range(40):
            await half(sender, b"%05d" % number + bytes(60_000))
        await served.clock.sleep(15)
        (stream,) = served.protocol._clients._clients["p1"]._streams
        assert 1_000_000 <= stream._unsent_bytes < 1_070_000
        assert len({each.message.body[:5] for each in checks(quick_stream)}) > 20
        assert len(checks(slow_stream)) <= 2
        assert await beat(slow) == Code.OK
        slow.client.h2.increment_flow_control_window(2_000_000, slow_stream.stream.id)
        slow.client.flush()
        await served.clock.sleep(1)
        assert len(checks(slow_stream)) > 15

    grpc_broker(main, settings=TRANSACTIONS)


async def answering(stream, answer):
    """Answer each command of a stream except settings with ``answer(command)``."""
    while (command := await stream.next()) is not None:
        if not command.HasField("settings") and (answered := answer(command)) is not None:
            stream.send(answered)


def sdk_answer(command):
    """Answer as an SDK does; a message that begins with ``bad`` is not consumed."""
    found = TelemetryCommand()
    match command.WhichOneof("command"):
        case "print_thread_stack_trace_command":
            found.status.code = Code.OK
            found.thread_stack_trace.nonce = command.print_thread_stack_trace_command.nonce
            found.thread_stack_trace.thread_stack_trace = "main\n  at work"
        case "verify_message_command":
            verify = command.verify_message_command
            bad = verify.message.body.startswith(b"bad")
            found.status.code = Code.FAILED_TO_CONSUME_MESSAGE if bad else Code.OK
            found.status.message = "as it says" if bad else ""
            found.verify_message_result.nonce = verify.nonce
        case _:
            return None
    return found


def test_operators_read_stacks_and_let_a_member_consume_a_message(grpc_broker):
    async def main(served):
        await served.cluster.create_topic("T", 2)
        sdk, simple = await served.sdk(), await served.sdk("simple")
        stream = await sdk.consumer("G", "T")
        older = stream
        stream = await sdk.consumer("G", "T")  # its newest stream is used
        await simple.consumer("G", "T", kind=ClientType.SIMPLE_CONSUMER)
        answers = asyncio.ensure_future(answering(stream, sdk_answer))
        address = served.cluster.broker_address
        good = await served.cluster.send("T", b"good")
        bad = await served.cluster.send("T", b"bad")
        async with served.cluster.client() as client, client.admin as admin:
            info = await admin.running_info(address, "G", "c1", stacks=True)
            assert (info.stacks, [each.topic for each in info.subscriptions]) == ("main\n  at work", ["T"])
            assert (await admin.running_info(address, "G", "c1")).stacks in ("", None)
            results = await asyncio.gather(
                *(
                    admin.consume_directly(address, "G", "c1", each.offset_id)
                    for each in (good, bad)
                    for _ in range(20)
                ),
                *(admin.running_info(address, "G", "c1", stacks=True) for _ in range(20)),
            )
            assert [each.result for each in results[:40]] == ["CR_SUCCESS"] * 20 + ["CR_LATER"] * 20
            assert (results[20].remark, results[20].succeeded) == ("as it says", False)
            assert len(older.all()) == 1
            with pytest.raises(BrokerRefused, match="is no push consumer"):
                await admin.consume_directly(address, "G", "simple", good.offset_id)
            answers.cancel()
            with pytest.raises(CallTimeout):  # of the operator's client, before the broker gives up
                await admin.running_info(address, "G", "c1", stacks=True)
            stream.end()
            await served.clock.sleep(1)
            answers = asyncio.ensure_future(answering(older, sdk_answer))
            info = await admin.running_info(address, "G", "c1", stacks=True)
            assert info.stacks == "main\n  at work"
            answers.cancel()
            older.end()
            await served.clock.sleep(1)
            with pytest.raises(BrokerRefused, match="no telemetry stream"):
                await admin.running_info(address, "G", "c1", stacks=True)

    grpc_broker(main)


def test_clients_that_join_at_once_leave_others_their_turns(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        await sdk.call("Heartbeat")
        (connection,) = served.protocol._server.connections
        arrived, receive = [], connection.data_received
        connection.data_received = arrived.append
        settings = TelemetryCommand(settings=consumer_settings("G", "T"))
        for number in range(30):
            sdk.open("Telemetry", settings, end=False, x_mq_client_id=f"c{number}")
        await served.clock.sleep(1)
        connection.data_received = receive
        joined = [0]
        served.broker.clients.on_heartbeat(lambda heartbeat, client: joined.__setitem__(-1, joined[-1] + 1))
        receive(b"".join(arrived))
        for _ in range(300):
            joined.append(0)
            await asyncio.sleep(0)
        assert (max(joined), sum(joined)) == (1, 30)

    grpc_broker(main)
