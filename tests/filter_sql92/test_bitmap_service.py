"""The bit map in a broker: registration of groups, bits of new messages, files on disk, effects of settings."""

import asyncio

import pytest

pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_filter_sql92")

from bitmap_rig import MADE, beside_a_broker, file_of, put, settle, shown, units
from sql_client import SqlClient

EMPTY = bytes(14)


@pytest.fixture
def broker(gantrymq_simulation):
    return beside_a_broker(gantrymq_simulation)


def test_a_message_gets_the_bits_of_the_groups_it_matches(broker):
    async def work(cluster, client):
        await put(cluster, 1)
        await client.subscribe("Low", ("T", "price < 10", 1))
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7, 20)
        _, low, both, high = await units(cluster)
        table = file_of(cluster)["T"]
        masks = {
            group: sum({1 << position for position in members["bloomFilterData"]["bitPos"]})
            for group, members in table.items()
        }
        assert int.from_bytes(low.bits, "little") == masks["Low"]
        assert int.from_bytes(high.bits, "little") == masks["High"]
        assert int.from_bytes(both.bits, "little") == masks["Low"] | masks["High"]
        assert (await units(cluster))[0].bits == b""
        assert shown(cluster, MADE) == {"made": 3, "withheld": 0}

    broker(work)


def test_what_the_bits_deny_is_not_read(broker):
    async def work(cluster, client):
        await put(cluster, 1)
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7, 20)
        assert await client.bodies("High", "T") == ["7", "20"]
        assert shown(cluster) == {"checked": 3, "skipped": 1, "evaluated": 3, "false_positive": 0}

    broker(work)


def test_a_clock_that_goes_back_hides_nothing(broker, monkeypatch):
    """Store times do not decrease; a group that registers later still gets the messages stored before."""

    async def work(cluster, client):
        await client.subscribe("Low", ("T", "price < 10", 1))
        await settle(cluster, 2)
        await put(cluster, 7, 20)
        clock = cluster.world.clock
        now_ms = type(clock).now_ms
        monkeypatch.setattr(type(clock), "now_ms", lambda self: now_ms(self) - 3_600_000)
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 8)
        assert await client.bodies("High", "T") == ["7", "20", "8"]
        assert await client.bodies("Low", "T") == ["7", "1", "8"]

    broker(work)


def test_bits_that_let_a_message_pass_wrongly_are_counted(broker):
    async def work(cluster, client):
        await client.subscribe("High", ("T", "price > 5", 1))
        for number in range(40):  # every bit is used by some group
            await client.subscribe(f"All{number}", ("T", "price > 0", 1))
        await settle(cluster)
        await put(cluster, 1, 7)
        assert await client.bodies("High", "T") == ["7"]
        assert shown(cluster) == {"checked": 2, "skipped": 0, "evaluated": 2, "false_positive": 1}

    broker(work)


@pytest.mark.parametrize(
    "settings",
    [{"enableCalcFilterBitMap": "false"}, {"enableConsumeQueueExt": "false"}],
    ids=["no bits", "no ext files"],
)
def test_without_one_of_the_two_settings_nobody_is_asked(broker, settings):
    async def work(cluster, client):
        await client.subscribe("High", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7)
        assert await client.bodies("High", "T") == ["7"]
        assert shown(cluster)["checked"] == 0
        assert shown(cluster, MADE) == {"made": 0, "withheld": 0}
        assert bool(cluster.broker.bit_maps) is ("enableCalcFilterBitMap" not in settings)

    broker(work, **settings)


def test_topics_that_nobody_filters_have_no_part_in_it(broker):
    async def work(cluster, client):
        await client.subscribe("Tags", ("T", "A || B", 1, "TAG"))
        await settle(cluster)
        await put(cluster, 1)
        assert cluster.broker.bit_maps == {}
        assert [unit.bits for unit in await units(cluster)] == [b""]
        assert file_of(cluster) == {}

    broker(work)


def test_who_changes_the_expression_gets_what_was_stored_before_as_well(broker):
    async def work(cluster, client):
        await client.subscribe("G", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7)
        await client.subscribe("G", ("T", "price < 5", 2))
        await settle(cluster)
        await put(cluster, 2, 8)
        assert await client.bodies("G", "T") == ["1", "2"]
        assert shown(cluster)["checked"] == 2

    broker(work)


def test_a_wrong_expression_is_refused_with_the_reason_and_the_rest_of_the_heartbeat_taken(broker):
    async def work(cluster, client):
        checked = await client.check("G", "T", "price >")
        assert (checked.code, "price" in checked.remark) == (23, True)
        answer = await client.subscribe("G", ("T", "price >", 1), ("U", "price > 5", 1))
        assert answer.code == 0
        pulled = await client.pull("G", "T")
        assert (pulled.code, pulled.remark) == (23, checked.remark)
        await settle(cluster)
        assert list(file_of(cluster)) == ["U"]
        await client.subscribe("G", ("T", "price > 5", 2), ("U", "price > 5", 1))
        await put(cluster, 1, 7)
        assert await client.bodies("G", "T") == ["7"]

    broker(work)


def test_without_property_filters_every_place_says_so(broker):
    async def work(cluster, client):
        await client.subscribe("G", ("T", "price > 5", 1))
        for answer in (await client.check("G", "T", "price > 5"), await client.pull("G", "T")):
            assert answer.code == 1
            assert "SQL92" in answer.remark

    broker(work, enablePropertyFilter="false")


def test_a_group_that_left_is_kept_for_a_time(broker):
    async def work(cluster, client):
        await client.subscribe("G", ("T", "price > 5", 1))
        await client.leave("G")
        await put(cluster, 1, 7)
        assert [unit.bits != EMPTY for unit in await units(cluster)] == [False, True]
        await cluster.world.clock.sleep(11.0)
        members = file_of(cluster)["T"]["G"]
        assert members["dead"] is True
        assert members["deadTime"] >= members["bornTime"]
        await cluster.world.clock.sleep(100)
        assert list(file_of(cluster)["T"]) == ["G"]
        await cluster.world.clock.sleep(30)
        assert file_of(cluster) == {}
        assert cluster.broker.bit_maps == {}
        await put(cluster, 9)
        assert (await units(cluster))[-1].bits == b""

    broker(work, filterDataCleanTimeSpan="120000")


def test_a_closed_connection_is_a_death_too_and_a_heartbeat_brings_back(broker):
    async def work(cluster, client):
        async with SqlClient(cluster, "127.0.0.1@2") as other:
            await other.subscribe("G", ("T", "price > 5", 1))
            await settle(cluster)
            born = file_of(cluster)["T"]["G"]["bornTime"]
        await cluster.world.clock.sleep(11.0)
        assert file_of(cluster)["T"]["G"]["dead"] is True
        await client.subscribe("G", ("T", "price > 5", 2))
        await cluster.world.clock.sleep(11.0)
        members = file_of(cluster)["T"]["G"]
        assert (members["dead"], members["bornTime"], members["clientVersion"]) == (False, born, 2)

    broker(work)


def test_bits_from_before_a_restart_are_believed(broker):
    async def work(cluster, client):
        await client.subscribe("G", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7)
        await cluster.restart()
        await put(cluster, 2, 8)  # the group has not returned yet, and gets its bits anyway
        await client.subscribe("G", ("T", "price > 5", 3))
        assert await client.bodies("G", "T") == ["7", "8"]
        found = shown(cluster)
        assert found.pop("checked") in (4, 6)  # a store may evaluate an entry again once it has the record
        assert found == {"skipped": 2, "evaluated": 2, "false_positive": 0}

    broker(work)


def test_maps_of_another_size_after_a_restart_are_not(broker):
    async def work(cluster, client):
        await client.subscribe("G", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7)
        cluster.settings.set("maxErrorRateOfBloomFilter", "1", "the test")
        await cluster.restart()
        await client.subscribe("G", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 2, 8)
        assert await client.bodies("G", "T") == ["7", "8"]
        assert shown(cluster)["checked"] == 2
        assert {len(unit.bits) for unit in await units(cluster)} == {14, 39}

    broker(work)


def test_settings_are_shown_and_set_as_on_a_java_broker(broker):
    async def work(cluster, client):
        async def values():
            text = bytes((await client.ask(26)).payload).decode()
            return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

        async def change(text):
            return (await client.ask(25, {}, text.encode())).code

        found = await values()
        assert found["bitMapLengthConsumeQueueExt"] == "112"
        assert found["expectConsumerNumUseFilter"] == "32"
        assert found["maxErrorRateOfBloomFilter"] == "20"
        assert found["filterDataCleanTimeSpan"] == "86400000"
        assert found["enableCalcFilterBitMap"] == "true"
        await client.subscribe("G", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1)
        assert await change("enableCalcFilterBitMap=false") == 0
        await settle(cluster, 1.1)
        await put(cluster, 2)
        assert await change("enableCalcFilterBitMap=true\nexpectConsumerNumUseFilter=64") == 0
        await settle(cluster, 1.1)
        await put(cluster, 7)
        assert (await values())["bitMapLengthConsumeQueueExt"] == "216"
        assert [len(unit.bits) for unit in await units(cluster)] == [14, 0, 27]
        assert await client.bodies("G", "T") == ["7"]
        assert await change("maxErrorRateOfBloomFilter=100") != 0

    broker(work)


def test_no_bits_are_given_while_the_file_cannot_be_written(broker, monkeypatch):
    from gantrymq_filter_sql92.bitmap import service

    failing = True
    write = service.save_table

    def save(*arguments):
        if failing:
            raise OSError(28, "No space left on device")
        write(*arguments)

    monkeypatch.setattr(service, "save_table", save)

    async def work(cluster, client):
        nonlocal failing
        await client.subscribe("G", ("T", "price > 5", 1))
        await settle(cluster)
        await put(cluster, 1, 7)
        assert [unit.bits for unit in await units(cluster)] == [b"", b""]
        assert await client.bodies("G", "T") == ["7"]
        failing = False
        await settle(cluster, 1.1)
        await put(cluster, 2, 8)
        assert [len(unit.bits) for unit in await units(cluster)] == [0, 0, 14, 14]
        assert await client.bodies("G", "T") == ["7", "8"]

    broker(work)


def test_retries_are_filtered_by_the_first_topics_expression_where_that_is_set(broker):
    async def work(cluster, client):
        await client.subscribe("G", ("T", "price > 5", 1), ("%RETRY%G", "price < 100", 1))
        await settle(cluster)
        for price, first in ((1, "T"), (7, "T"), (2, "Unknown")):
            properties = {"price": str(price), "RETRY_TOPIC": first}
            await cluster.put("%RETRY%G", str(price).encode(), properties=properties)
        await settle(cluster)
        assert await client.bodies("G", "%RETRY%G") == ["1", "7", "2"]
        assert (await client.ask(25, {}, b"filterSupportRetry=true")).code == 0
        assert await client.bodies("G", "%RETRY%G") == ["7", "2"]
        await client.subscribe("G", ("T", "price > 5", 1), ("%RETRY%G", "*", 2, "TAG"))
        assert await client.bodies("G", "%RETRY%G") == ["1", "7", "2"]  # as every client subscribes

    broker(work)


def test_a_pull_that_waits_is_woken_by_a_message_that_matches(broker):
    async def work(cluster, client):
        await client.subscribe("G", ("T", "price > 5", 1))
        await settle(cluster)
        clock = cluster.world.clock
        async with SqlClient(cluster, "127.0.0.1@2") as other:
            begun = clock.monotonic()
            waiting = asyncio.create_task(other.pull("G", "T", sysFlag="2", suspendTimeoutMillis="20000"))
            await clock.sleep(1.0)
            await put(cluster, 1)
            await clock.sleep(1.0)
            assert not waiting.done()
            await put(cluster, 7)
            assert (await waiting).code == 0
            assert clock.monotonic() - begun < 3

    broker(work)
