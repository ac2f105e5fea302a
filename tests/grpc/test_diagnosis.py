"""What operators are told about groups of gRPC clients, which receive by pop and never pull."""

import pytest

pytest.importorskip("gantrymq_grpc")
pytest.importorskip("gantrymq_diagnosis")
pytest.importorskip("gantrymq_admin")

from gantrymq_admin.consumption import consumers_of
from gantrymq_admin.explanations import explain_group
from gantrymq_admin.progress import members_of
from gantrymq_admin.summaries import GroupSummaries, summary_page
from gantrymq_grpc.definitions import ClientType
from gantrymq_grpc.service.sends import unknown_topic

KINDS = [ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER]


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_group_is_judged_by_its_pops(grpc_broker, kind):
    async def main(served):
        sdk = await served.sdk()
        await sdk.consumer("G", "T", kind=kind)
        for number in range(4):
            await sdk.send(body=b"%d" % number)
        received = 0
        while received < 4:
            for message in await sdk.receive():
                await sdk.ack(message)
                received += 1
        await served.clock.sleep(10)
        address = served.cluster.broker_address
        async with served.cluster.client() as client, client.admin as admin:
            found = await explain_group(admin, address, "G")
            words = {(each.topic, each.reason, each.variant, each.last_pull_ms_ago) for each in found.queues}
            assert words == {("T", "up-to-date", "popped", None)}
            assert ([each.consume_type for each in found.members], found.diagnosis) == (["CONSUME_POP"], ())
            await sdk.send(body=b"more")
            found = await explain_group(admin, address, "G")
            assert sorted(each.reason for each in found.queues) == ["popped", "up-to-date"]
            (row,) = [each for each in (await summary_page(admin, address, GroupSummaries)).groups if each.group == "G"]
            assert row.model == "POP"
            online = await admin.consumer_connections(address, "G")
            assert [each.protocol for each in online.clients] == ["grpc"]
            assert members_of({address: online}).consume_type == "CONSUME_POP"

    grpc_broker(main)


def test_members_of_remoting_are_listed_as_by_rocketmq_and_do_not_pop(grpc_broker):
    async def main(served):
        await served.cluster.create_topic("T", 2)
        async with served.cluster.client() as client:
            consumer = client.consumer("G", "T")
            await consumer.wait_assigned()
            async with client.admin as admin:
                online = await admin.consumer_connections(served.cluster.broker_address, "G")
            assert ([each.protocol for each in online.clients], online.pops) == ([""], False)
            assert members_of({"": online}).consume_type == online.consume_type

    grpc_broker(main)


def test_the_consumption_of_a_message_is_judged_by_pops(grpc_broker):
    async def main(served):
        await served.cluster.create_topic("T", 2)
        sdk = await served.sdk()
        await sdk.consumer("G", "T")
        sent = await sdk.send()
        async with served.cluster.client() as client, client.admin as admin:
            (found,) = await admin.query_unique("T", sent.message_id, begin_ms=0)
            consumption = await consumers_of(admin, client.reader("T", group="R"), found, clock=served.clock)
        (verdict,) = consumption.verdicts
        assert (verdict.group, verdict.facts.pops, verdict.facts.positions) == ("G", True, ())

    grpc_broker(main)


def test_members_of_both_kinds_pop_from_the_same_queues_without_conflict(grpc_broker):
    async def main(served):
        sdk, simple = await served.sdk("c1"), await served.sdk("c2")
        await sdk.consumer("G", "T")
        await simple.consumer("G", "T", kind=ClientType.SIMPLE_CONSUMER)
        async with served.cluster.client() as client, client.admin as admin:
            found = await explain_group(admin, served.cluster.broker_address, "G")
        assert (len(found.members), found.conflicts, found.diagnosis) == (2, (), ())

    grpc_broker(main)


def test_the_command_that_creates_a_topic_has_its_name_quoted_for_a_shell():
    assert "topic create -t 'a|b' (" in unknown_topic("a|b")
