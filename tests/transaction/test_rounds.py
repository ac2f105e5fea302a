"""Rounds of checks that find unreadable records, are cancelled, or run out of time."""

import asyncio

import pytest

pytest.importorskip("gantrymq_storage_memory")

from desk import COMMIT, answer_to, bodies, end, half, join, run_with_plugin

from gantrymq.errors import FormatError, StoreError
from gantrymq_transaction import half_checker


def asked_of(producer):
    return [command.ext["msgId"] for command in producer.asked]


def test_one_whose_other_copies_cannot_be_read_holds_up_no_other(monkeypatch, caplog):
    real = half_checker.committed_message

    async def failing(broker, who):
        if who.unique_id == "ID1":
            raise StoreError("the index cannot be read")
        return await real(broker, who)

    monkeypatch.setattr(half_checker, "committed_message", failing)

    async def main(desk, service):
        producer = await join(desk.peer())
        for number in range(3):
            await half(desk, number)
        await desk.clock.sleep(31)
        assert asked_of(producer) == ["ID0", "ID2"]
        monkeypatch.setattr(half_checker, "committed_message", real)
        await desk.clock.sleep(30)
        assert sorted(asked_of(producer)[2:]) == ["ID0", "ID1", "ID2"]

    run_with_plugin(main)
    assert "the undecided message at queue offset 1 stays until the next round: the index cannot be read" in caplog.text


def test_after_the_clock_was_set_back_messages_are_checked_as_before():
    async def main(desk, service):
        producer = await join(desk.peer())
        desk.clock._start_us += 3_600_000_000
        await half(desk, 0)
        await desk.clock.sleep(1)
        desk.clock._start_us -= 3_600_000_000
        await half(desk, 1)
        await desk.clock.sleep(31)
        assert sorted(asked_of(producer)) == ["ID0", "ID1"]

    run_with_plugin(main)


def test_one_that_cannot_be_read_holds_up_no_other(monkeypatch, caplog):
    real = half_checker.read_these

    async def failing(broker, queue, offsets, slices):
        async for record in real(broker, queue, offsets, slices):
            if record.queue_offset == 1:
                raise FormatError("no record starts there")
            yield record

    monkeypatch.setattr(half_checker, "read_these", failing)

    async def main(desk, service):
        producer = await join(desk.peer())
        for number in range(4):
            await half(desk, number)
        await desk.clock.sleep(31)
        assert asked_of(producer) == ["ID0", "ID2", "ID3"]

    run_with_plugin(main)
    assert caplog.text.count("the undecided message at queue offset 1 stays") == 1


def test_many_that_fail_are_counted_in_the_log(monkeypatch, caplog):
    async def failing(_broker, _who):
        raise StoreError("the index cannot be read")

    monkeypatch.setattr(half_checker, "committed_message", failing)

    async def main(desk, service):
        await join(desk.peer())
        for number in range(40):
            await half(desk, number)
        await desk.clock.sleep(31)

    run_with_plugin(main)
    assert caplog.text.count("stays until the next round: the index") == half_checker.MOST_LOGGED
    assert "30 more undecided messages stay until the next round" in caplog.text


def test_a_check_that_is_counted_is_sent_although_the_round_is_cancelled():
    async def main(desk, service):
        producer = await join(desk.peer())
        await half(desk)
        await desk.clock.sleep(8)
        asking = asyncio.ensure_future(service.check(desk.clock.now_ms()))
        for _ in range(20):
            if not service.ledger.is_taken(0):
                await asyncio.sleep(0)
        assert service.ledger.is_taken(0)
        asking.cancel()
        await desk.clock.sleep(1)
        (asked,) = producer.asked
        assert (await end(producer, answer_to(asked), COMMIT)).code == 0
        assert await bodies(desk) == [b"body1"]

    run_with_plugin(main)


def test_the_oldest_is_that_of_all_rounds_that_go_on_from_one_another(monkeypatch):
    monkeypatch.setattr(half_checker, "ROUND_MESSAGES", 1)
    monkeypatch.setattr(half_checker, "SLICE", 1)

    async def main(desk, service):
        born_ms = desk.clock.now_ms()
        for number in range(3):
            await half(desk, number)
            await desk.clock.sleep(7)
        await desk.clock.sleep(10)  # each of the later rounds handles one message
        for _ in range(3):
            await service.check(desk.clock.now_ms())
            assert service.undecided().oldest_born_ms - born_ms < 1000

    run_with_plugin(main)
