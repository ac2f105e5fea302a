"""Features of clients that a broker does not interpret: compressed bodies, namespaces, traces."""

from __future__ import annotations

import pytest
from broker_desk import records, send_header

from gantrymq.model.sys_flag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD


@pytest.mark.parametrize("kind", [0, COMPRESSION_LZ4, COMPRESSION_ZSTD, COMPRESSION_ZLIB])
@pytest.mark.parametrize("code", [10, 310, 320])
def test_a_compressed_body_and_the_bits_that_say_so_stay_as_they_came(broker, kind, code):
    body = bytes(range(256)) * 20

    async def main(desk):
        for _ in range(3):  # the second and third pass as sends alike
            if code == 320:
                await desk.send_batch("T", [(body, b"TAGS\x01A\x02")], sys_flag=COMPRESSED | kind)
            else:
                await desk.send("T", body, code=code, sys_flag=COMPRESSED | kind)
        found = records(await desk.pull("T"))
        assert [(bytes(each.body), each.sys_flag) for each in found] == [(body, COMPRESSED | kind)] * 3

    broker(main)


def test_a_namespace_of_the_first_kind_is_part_of_every_name(broker):
    async def main(desk):
        assert (await desk.send("shop%T", b"in")).code == 0
        assert (await desk.heartbeat("shop%CG", "shop%T")).code == 0
        assert desk.tables.topics.get("%RETRY%shop%CG") is not None
        (found,) = records(await desk.pull("shop%T"))
        assert (found.topic, bytes(found.body)) == ("shop%T", b"in")
        assert desk.tables.topics.get("T") is None

    broker(main)


def test_a_namespace_of_the_second_kind_is_two_fields_that_change_no_name(broker):
    async def main(desk):
        fields = {"nsd": "true", "ns": "shop"}
        answer = await desk.ask(310, {**send_header("T").to_ext_v2(), **fields}, b"in")
        assert answer.code == 0
        (found,) = records(await desk.pull("T", nsd="true", ns="shop"))
        assert (found.topic, bytes(found.body)) == ("T", b"in")

    broker(main)


def test_the_trace_topic_is_made_at_the_start_where_that_is_set(broker):
    async def main(desk):
        assert desk.tables.topics.get("Traces").write_queues == 1
        assert desk.tables.topics.get("RMQ_SYS_TRACE_TOPIC") is None

    broker(main, traceTopicEnable=True, msgTraceTopicName="Traces")


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_DefaultRegion"])
def test_without_that_the_first_trace_makes_its_topic(broker, topic):
    async def main(desk):
        assert desk.tables.topics.get(topic) is None
        assert (await desk.send(topic, b"Pub\x01")).code == 0
        assert (await desk.pull(topic)).code == 0

    broker(main)


@pytest.mark.parametrize(("trace_on", "said"), [(True, "true"), (False, "false")])
def test_clients_are_told_whether_to_trace_by_answer_and_by_message(broker, trace_on, said):
    async def main(desk):
        answer = await desk.send("T", b"in")
        (found,) = records(await desk.pull("T"))
        assert answer.ext["TRACE_ON"] == said
        assert found.properties["TRACE_ON"] == said

    broker(main, traceOn=trace_on)
