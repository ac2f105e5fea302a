"""Results of a get, and filtering."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.formats.record import RecordView, read_record
from gantrymq.interfaces import GetLimit, GetStatus
from gantrymq_testing.store_contract.cases import NEVER, T0, StoreCases, with_store
from gantrymq_testing.store_contract_bench import OnlyTags, ShortTurn, StoreBench, bodies, message, records_of


class GettingCases(StoreCases):
    """Statuses, offsets and bounds of a get are RocketMQ's."""

    # --- get ----------------------------------------------------------------------------------------------------------

    @with_store()
    async def test_status_and_next_offset_of_a_get_that_finds_nothing(self, bench: StoreBench) -> None:
        for queue_offset in (0, 7):
            result = await bench.get(NEVER, queue_offset)
            assert result[:4] == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        await bench.add(message(), message(), message())
        for queue_offset, status, next_offset in (
            (-1, GetStatus.OFFSET_TOO_SMALL, 0),
            (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
            (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
            (1 << 62, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
        ):
            result = await bench.get(T0, queue_offset)
            assert result[:4] == (status, next_offset, 0, 3), queue_offset
            assert (result.count, result.size, len(result.buffers)) == (0, 0, 0)

    @with_store()
    async def test_a_get_returns_the_records_as_they_lie_in_the_log(self, bench: StoreBench) -> None:
        results = await bench.add(*[message(body=b"%d" % n) for n in range(5)])
        got = await bench.get(T0, 1)
        assert got[:4] == (GetStatus.FOUND, 5, 0, 5)
        assert bodies(records_of(got)) == [b"1", b"2", b"3", b"4"]
        assert got.size == sum(result.size for result in results[1:])
        for result, record in zip(results[1:], records_of(got), strict=True):
            assert read_record(record.raw).log_offset == result.log_offset

    @with_store()
    async def test_a_get_keeps_to_the_count(self, bench: StoreBench) -> None:
        await bench.add(*[message(body=b"%d" % n) for n in range(5)])
        got = await bench.get(T0, 1, GetLimit(max_count=2))
        assert (bodies(records_of(got)), got.next_offset) == ([b"1", b"2"], 3)
        got = await bench.get(T0, 4, GetLimit(max_count=2))
        assert (bodies(records_of(got)), got.next_offset) == ([b"4"], 5)

    @with_store()
    async def test_a_get_keeps_to_the_bytes_but_returns_one_record_at_least(self, bench: StoreBench) -> None:
        results = await bench.add(*[message(body=bytes([n]) * 500) for n in range(4)])
        size = results[0].size
        for max_bytes, count in ((3 * size, 3), (3 * size - 1, 2), (size, 1), (101, 1)):
            got = await bench.get(T0, 0, GetLimit(max_bytes=max_bytes))
            assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, count, count), max_bytes

    @with_store()
    async def test_gets_by_next_offset_meet_every_message_once(self, bench: StoreBench) -> None:
        sent = [b"%d" % n * (n % 300 + 1) for n in range(400)]
        await bench.add(*[message(body=body) for body in sent])
        for limit in (GetLimit(), GetLimit(max_count=7), GetLimit(max_count=1000), GetLimit(max_bytes=2000)):
            assert bodies(await bench.read_all(T0, limit=limit)) == sent

    @with_store()
    async def test_what_a_get_returned_stays_as_it_was(self, bench: StoreBench) -> None:
        await bench.add(message(body=b"old"))
        got = await bench.get(T0, 0)
        kept = [bytes(buffer) for buffer in got.buffers]
        await bench.add(*[message(body=b"new" * 100) for _ in range(100)])
        assert [bytes(buffer) for buffer in got.buffers] == kept

    # --- filters ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("needs_message", [False, True], ids=["on the entry", "on the message"])
    def test_a_filter_chooses(self, tmp_path: Path, needs_message: bool) -> None:
        @with_store()
        async def case(self: StoreCases, bench: StoreBench) -> None:
            await bench.add(*[message(body=b"%d" % n, tag="ABC"[n % 3]) for n in range(9)])
            got = await bench.get(T0, 0, match=OnlyTags("B", needs_message=needs_message))
            assert (got.status, got.next_offset) == (GetStatus.FOUND, 9)
            assert bodies(records_of(got)) == [b"1", b"4", b"7"]
            got = await bench.get(T0, 0, GetLimit(max_count=2), OnlyTags("A", "C", needs_message=needs_message))
            assert (bodies(records_of(got)), got.next_offset) == ([b"0", b"2"], 3)

        case(self, tmp_path)

    @pytest.mark.parametrize("needs_message", [False, True], ids=["on the entry", "on the message"])
    def test_next_offset_moves_past_what_is_filtered(self, tmp_path: Path, needs_message: bool) -> None:
        @with_store()
        async def case(self: StoreCases, bench: StoreBench) -> None:
            await bench.add(*[message(tag="A") for _ in range(6)])
            got = await bench.get(T0, 2, match=OnlyTags("Z", needs_message=needs_message))
            assert got[:4] == (GetStatus.NO_MATCHED_MESSAGE, 6, 0, 6)
            assert got.count == 0

        case(self, tmp_path)

    @pytest.mark.parametrize("needs_message", [False, True], ids=["on the entry", "on the message"])
    def test_a_filter_whose_turn_is_over_ends_the_get_before_the_entry(
        self, tmp_path: Path, needs_message: bool
    ) -> None:
        @with_store()
        async def case(self: StoreCases, bench: StoreBench) -> None:
            await bench.add(*[message(body=b"%d" % n, tag="AB"[n % 2]) for n in range(9)])
            for asked in range(10):
                got = await bench.get(T0, 0, match=ShortTurn(asked, "A", needs_message=needs_message))
                found = [b"%d" % n for n in range(0, min(asked, 9), 2)]
                assert (got.count, got.next_offset, bodies(records_of(got))) == (len(found), min(asked, 9), found)
                assert got.status is (GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE)

        case(self, tmp_path)

    @with_store()
    async def test_the_needle_in_a_haystack_is_found(self, bench: StoreBench) -> None:
        await bench.add(*[message(tag="hay") for _ in range(2000)], message(body=b"needle", tag="N"))
        assert bodies(await bench.read_all(T0, match=OnlyTags("N"))) == [b"needle"]

    @with_store()
    async def test_a_filter_that_accepts_all_need_not_be_asked(self, bench: StoreBench) -> None:
        class Everything(OnlyTags):
            accepts_all = True

            def match_entry(self, tags_code: int, ext: object) -> bool:
                return True

            def match_message(self, record: RecordView) -> bool:
                return True

        await bench.add(message(tag="A"), message())
        assert (await bench.get(T0, 0, match=Everything())).count == 2
