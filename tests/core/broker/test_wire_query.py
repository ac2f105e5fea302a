"""Looking messages up over the wire: 12 by key and by unique key, 33 by log offset."""

from __future__ import annotations

import pytest

from gantrymq.formats.record import iter_records
from gantrymq.model.ids import parse_offset_id

ALWAYS = {"beginTimestamp": "0", "endTimestamp": str(2**63 - 1)}


def query_ext(key, *, limit=32, **fields):
    return {"topic": "T", "key": key, "maxNum": str(limit), **ALWAYS, **fields}


async def keyed(desk, body, **pairs):
    """Send a message with these properties; its log offset."""
    answer = await desk.send("T", body, properties="".join(f"{name}\x01{value}\x02" for name, value in pairs.items()))
    return parse_offset_id(answer.ext["msgId"])[2]


def records(answer):
    assert answer.code == 0, answer.remark
    return list(iter_records(answer.payload))


def test_messages_are_found_by_key_oldest_first(broker):
    async def main(desk):
        offsets = [await keyed(desk, b"%d" % n, KEYS="all odd" if n % 2 else "all") for n in range(4)]
        found = await desk.ask(12, query_ext("all"))
        assert [record.log_offset for record in records(found)] == offsets
        assert found.ext["indexLastUpdatePhyoffset"] == str(offsets[-1])
        assert int(found.ext["indexLastUpdateTimestamp"]) == records(found)[-1].store_timestamp
        assert [bytes(record.body) for record in records(await desk.ask(12, query_ext("odd")))] == [b"1", b"3"]

    broker(main)


def test_the_request_says_how_many_unless_it_asks_for_a_unique_key(broker):
    async def main(desk):
        for n in range(5):
            await keyed(desk, b"%d" % n, UNIQ_KEY="U")
        two = await desk.ask(12, query_ext("U", limit=2))
        assert [bytes(record.body) for record in records(two)] == [b"3", b"4"]
        three = await desk.ask(12, query_ext("U", limit=2, _UNIQUE_KEY_QUERY="true"))
        assert [bytes(record.body) for record in records(three)] == [b"2", b"3", b"4"]

    broker(main, defaultQueryMaxNum=3)


def test_the_window_is_that_of_the_store_times(broker):
    async def main(desk):
        await keyed(desk, b"early", KEYS="k")
        between = desk.clock.now_ms() + 5_000
        await desk.clock.sleep(10)
        await keyed(desk, b"late", KEYS="k")
        early = await desk.ask(12, query_ext("k", endTimestamp=str(between)))
        assert [bytes(record.body) for record in records(early)] == [b"early"]
        late = await desk.ask(12, query_ext("k", beginTimestamp=str(between)))
        assert [bytes(record.body) for record in records(late)] == [b"late"]

    broker(main)


def test_a_key_that_nobody_has_is_not_found(broker):
    async def main(desk):
        await keyed(desk, b"1", KEYS="k")
        answer = await desk.ask(12, query_ext("other"))
        assert answer.code == 22
        assert "other" in answer.remark
        assert answer.ext == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}

    broker(main)


def test_an_index_that_is_behind_the_log_is_told_from_one_that_has_nothing(broker, monkeypatch):
    async def main(desk):
        await keyed(desk, b"1", KEYS="k")
        query = desk.server.store.query

        def behind(*asked):
            return query(*asked)._replace(problem="the index lags 9 bytes", complete=False)

        monkeypatch.setattr(desk.server.store, "query", behind)
        answer = await desk.ask(12, query_ext("other"))
        assert (answer.code, answer.remark) == (2, "the index lags 9 bytes")
        answer = await desk.ask(12, query_ext("k"))
        assert [bytes(record.body) for record in records(answer)] == [b"1"]
        assert answer.remark == "the index lags 9 bytes"
        assert int(answer.ext["indexLastUpdateTimestamp"]) == records(answer)[0].store_timestamp

    broker(main)


def test_a_message_is_viewed_at_its_place_in_the_log(broker):
    async def main(desk):
        await keyed(desk, b"1")
        place = await keyed(desk, b"2")
        (found,) = records(await desk.ask(33, {"offset": str(place)}))
        assert (found.log_offset, bytes(found.body)) == (place, b"2")

    broker(main)


@pytest.mark.parametrize("place", [-1, 1, 10**9])
def test_there_is_no_message_between_others(broker, place):
    async def main(desk):
        end = await keyed(desk, b"1")
        answer = await desk.ask(33, {"topic": "T", "offset": str(place)})
        assert answer.code == 1
        assert str(place) in answer.remark
        assert end == 0

    broker(main)
