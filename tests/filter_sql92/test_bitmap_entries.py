"""Queue entries with their bits: request 321, as sent by `mqadmin queryCq`."""

import asyncio
from base64 import b64encode

import pytest

pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_filter_sql92")

from bitmap_rig import beside_a_broker, file_of, put, settle, units
from long_responses import WrittenTogether

from gantrymq.loose_json import loads
from gantrymq.remoting.responses import MAX_AT_ONCE


@pytest.fixture
def broker(gantrymq_simulation):
    return beside_a_broker(gantrymq_simulation)


async def entries(client, **more):
    asked = {"topic": "T", "queueId": "0", "index": "0", "count": "100", **more}
    return loads((await client.ask(321, asked)).payload)


def test_each_entry_says_what_the_bits_say_of_the_group(broker):
    async def work(cluster, client):
        await put(cluster, 1)
        await client.subscribe("High", ("T", "price > 5", 1))
        await client.subscribe("Low", ("T", "price < 10", 1))
        await settle(cluster)
        await put(cluster, 1, 7, 20)
        found = await entries(client, consumerGroup="High")
        assert [each["eval"] for each in found["queueData"]] == [True, False, True, True]
        assert loads(found["filterData"]) == file_of(cluster)["T"]["High"]
        assert found["filterData"].startswith('{\n\t"bloomFilterData":{\n\t\t"bitNum":112,')
        assert found["subscriptionData"]["subString"] == "price > 5"
        assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 4)
        assert [each["eval"] for each in (await entries(client, consumerGroup="Low"))["queueData"]] == [
            *(True, True, True, False)
        ]

    broker(work)


def test_ext_units_are_shown_bit_by_bit(broker):
    async def work(cluster, client):
        await put(cluster, 1)
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 7)
        without, with_bits = (await entries(client))["queueData"]
        old, new = await units(cluster)
        assert (without["eval"], with_bits["eval"]) == (False, False)  # no group was named
        assert "bitMap" not in without
        members = {"msgStoreTime": old.store_timestamp, "size": 20, "tagsCode": without["tagsCode"]}
        assert loads(without["extendDataJson"]) == members
        shown = loads(with_bits["extendDataJson"])
        assert (shown["size"], shown["filterBitMap"]) == (34, b64encode(new.bits).decode())
        assert int(with_bits["bitMap"].replace("\n", ""), 2) == int.from_bytes(new.bits, "little")
        assert [len(line) for line in with_bits["bitMap"].split("\n")] == [48, 64, 0]

    broker(work)


def test_entries_are_found_from_the_middle_and_beyond_one_read(broker):
    async def work(cluster, client):
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, *range(70))
        found = await entries(client, index="3", count="60", consumerGroup="High")
        assert [each["eval"] for each in found["queueData"]] == [price > 5 for price in range(3, 63)]

    broker(work)


def test_messages_of_one_instant_keep_their_own_bits(broker):
    async def work(cluster, client):
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        for price in (1, 7, 2, 8):
            await cluster.put("T", b"", properties={"price": str(price)})
        found = await entries(client, consumerGroup="High")
        assert [each["eval"] for each in found["queueData"]] == [False, True, False, True]

    broker(work)


def test_who_is_not_there_or_filters_by_tags_has_no_filter_data(broker):
    async def work(cluster, client):
        await put(cluster, 1, 7)
        assert (await entries(client, consumerGroup="Nobody"))["filterData"] == "Nobody@T is not online!"
        await client.subscribe("Tags", ("T", "*", 1, "TAG"))
        found = await entries(client, consumerGroup="Tags")
        assert found["filterData"] == "null"
        assert [each["eval"] for each in found["queueData"]] == [True, True]
        assert "filterData" not in await entries(client)

    broker(work)


def test_without_ext_files_entries_are_those_of_a_plain_queue(broker):
    async def work(cluster, client):
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7)
        found = await entries(client, consumerGroup="High")
        assert [set(each) for each in found["queueData"]] == [{"eval", "physicOffset", "physicSize", "tagsCode"}] * 2
        assert loads(found["filterData"])["expression"] == "price > 5"

    broker(work, enableConsumeQueueExt="false")


def test_entries_of_what_is_not_there_are_refused(broker):
    async def work(cluster, client):
        asked = {"topic": "T", "queueId": "0", "index": "0", "count": "1"}
        for wrong, code in (({"topic": "Nowhere"}, 1), ({"queueId": "1"}, 1), ({"index": "-1"}, 29)):
            answer = await client.ask(321, {**asked, **wrong})
            assert (answer.code, bool(answer.remark)) == (code, True)

    broker(work)


def test_a_few_responses_with_entries_are_written_at_once(broker, monkeypatch):
    async def work(cluster, client):
        await put(cluster, *range(150))
        written = WrittenTogether(monkeypatch, cluster.world.clock)
        answers = await asyncio.gather(*(entries(client, count="150") for _ in range(3 * MAX_AT_ONCE)))
        assert [len(each["queueData"]) for each in answers] == [150] * (3 * MAX_AT_ONCE)
        assert written.most == MAX_AT_ONCE

    broker(work)
