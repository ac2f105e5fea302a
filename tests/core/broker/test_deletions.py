"""Deleted topics: some at a time, none while earlier deletions are made durable."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.broker.tables.deletions import AT_ONCE, Deletions
from gantrymq.errors import InvalidParameter, StoreError


class Kept:
    """Records deletions and when they become durable."""

    def __init__(self):
        self.forgotten, self.durable, self.saves = [], [], 0
        self.save_fails = False
        self.deletions = Deletions(self.forget, self.saved)

    def forget(self, topic):
        if not topic:
            raise InvalidParameter("blank")
        self.forgotten.append(topic)
        self.durable.append(asyncio.get_running_loop().create_future())
        return self.durable[-1]

    async def saved(self):
        self.saves += 1
        if self.save_fails:
            raise StoreError("no room")

    def ask(self, *topics):
        return [asyncio.ensure_future(self.deletions.delete(topic)) for topic in topics]

    def made_durable(self, problem=None):
        for each in self.durable:
            if not each.done():
                each.set_result(None) if problem is None else each.set_exception(problem)


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_comes_while_topics_are_made_durable_waits_and_shares_the_next_turn():
    async def case():
        kept = Kept()
        first = kept.ask("a", "b")
        await turns()
        assert kept.forgotten == ["a", "b"]
        later = kept.ask("c", "d")
        await turns()
        assert kept.forgotten == ["a", "b"]
        assert not any(each.done() for each in first)
        kept.made_durable()
        await turns()
        assert all(each.done() for each in first)
        assert kept.forgotten == ["a", "b", "c", "d"]
        kept.made_durable()
        await asyncio.gather(*later)
        assert kept.saves == 2

    asyncio.run(case())


def test_many_are_forgotten_some_at_a_time():
    async def case():
        kept = Kept()
        asked = kept.ask(*(str(n) for n in range(AT_ONCE * 2 + 1)))
        for count in (AT_ONCE, AT_ONCE * 2, AT_ONCE * 2 + 1):
            await turns()
            assert len(kept.forgotten) == count
            kept.made_durable()
        await asyncio.gather(*asked)

    asyncio.run(case())


def test_a_problem_is_told_to_whoever_asked_for_that_topic_and_to_no_other():
    async def case():
        kept = Kept()
        good, blank, twice, failed = kept.ask("a", "", "a", "b")
        await turns()
        assert kept.forgotten == ["a", "b"]
        kept.durable[1].set_exception(StoreError("the disk"))
        kept.made_durable()
        await asyncio.gather(good, twice)
        with pytest.raises(InvalidParameter, match="blank"):
            await blank
        with pytest.raises(StoreError, match="the disk"):
            await failed
        kept.save_fails = True
        (unsaved,) = kept.ask("c")
        await turns()
        kept.made_durable()
        with pytest.raises(StoreError, match="no room"):
            await unsaved

    asyncio.run(case())


def test_closing_ends_the_waiting():
    async def case():
        kept = Kept()
        asked = kept.ask("a")
        await turns()
        asked += kept.ask("b")
        await turns()
        kept.deletions.close()
        for each in asked:
            with pytest.raises(asyncio.CancelledError):
                await each
        assert kept.forgotten == ["a"]

    asyncio.run(case())
