"""Contract tests for allocation strategies.

A plugin's test derives from `AllocationContract`, names its strategy, and the guarantees that it does not give:

    class TestMyStrategy(AllocationContract):
        make_strategy = MyStrategy
        spread = None          # shares may be uneven

The contract simulates whole groups: for many seeded combinations of queues and members it calls the strategy once per
member, as the members would. A strategy that reads names (of rooms, for example) sets `broker_names` and
`client_names` to names it can read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue

GROUP = "contract"
TOPIC = "ContractTopic"
MOST_QUEUES_PER_BROKER = 9
ROUNDS = 60  # seeded combinations that each test plays

Plan = dict[str, list[MessageQueue]]


class AllocationContract:
    """Derive from it, set `make_strategy`, and lower the guarantees that are not given."""

    make_strategy: Callable[[], AllocationStrategy]
    """Create a strategy with its settings; called several times, and all instances must agree."""
    broker_names: Sequence[str] = ("broker-a", "broker-b", "broker-c")
    client_names: Sequence[str] = tuple(f"192.168.0.{i}@100{i}#{i}{i}" for i in range(1, 8))
    covers_all_queues: bool = True
    """Whether every queue is assigned if there is a member."""
    reads_queues: bool = True
    """Whether only given queues are returned."""
    reads_members: bool = True
    """Whether a non-member gets no queue, and no two members get the same one."""
    keeps_order: bool = True
    """Whether a member's queues are returned in the given order."""
    spread: int | None = 1
    """Maximum difference between the numbers of queues of two members; None if unlimited."""
    moves_only_what_it_must: bool = False
    """When a member leaves, only its queues move; when one joins, queues move only to it."""

    @pytest.fixture
    def strategy(self) -> AllocationStrategy:
        """A fresh strategy."""
        return type(self).make_strategy()

    def groups(self) -> Iterator[tuple[list[MessageQueue], list[str]]]:
        """Sorted queues and sorted members, at least one of each; the same ones every time."""
        chance = random.Random(TOPIC)
        for _ in range(ROUNDS):
            brokers = chance.sample(self.broker_names, chance.randint(1, len(self.broker_names)))
            queues = [
                MessageQueue(TOPIC, broker, i)
                for broker in brokers
                for i in range(chance.randint(1, MOST_QUEUES_PER_BROKER))
            ]
            members = chance.sample(self.client_names, chance.randint(1, len(self.client_names)))
            yield sorted(queues), sorted(members)

    def test_has_a_name_that_stays(self, strategy: AllocationStrategy) -> None:
        assert strategy.name
        assert strategy.name == strategy.name.strip()
        assert type(self).make_strategy().name == strategy.name

    def test_every_queue_has_one_reader(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            readers = Counter(queue for given in played(strategy, queues, members).values() for queue in given)
            if self.reads_members:
                assert max(readers.values(), default=0) <= 1, (queues, members)
            if self.covers_all_queues:
                assert set(queues) <= set(readers), (queues, members)

    def test_no_member_gets_a_queue_that_is_not_there_or_one_twice(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            for member, given in played(strategy, queues, members).items():
                assert len(set(given)) == len(given), (member, queues, members)
                if self.reads_queues:
                    assert set(given) <= set(queues), (member, queues, members)

    def test_queues_come_in_the_order_given(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            for given in played(strategy, queues, members).values():
                if self.keeps_order:
                    assert given == sorted(given), (queues, members)

    def test_members_that_compute_on_their_own_agree(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            at_one_place = played(strategy, queues, members)
            for member in members:
                alone = type(self).make_strategy()
                assert alone.allocate(GROUP, member, queues, members) == at_one_place[member], (queues, members)

    def test_what_was_asked_before_changes_nothing(self, strategy: AllocationStrategy) -> None:
        asked = [(queues, members, played(strategy, queues, members)) for queues, members in self.groups()]
        for queues, members, answered in reversed(asked):
            backwards = played(strategy, queues, members[::-1], known=members)
            assert backwards == answered, (queues, members)

    def test_takes_any_sequence_and_leaves_it_as_it_is(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            before = (list(queues), list(members))
            from_lists = strategy.allocate(GROUP, members[0], queues, members)
            assert strategy.allocate(GROUP, members[0], tuple(queues), tuple(members)) == from_lists
            from_lists.clear()
            assert (queues, members) == before

    def test_answers_with_a_list_of_its_own(self, strategy: AllocationStrategy) -> None:
        queues, members = next(self.groups())
        given = strategy.allocate(GROUP, members[0], queues, members)
        kept = list(given)
        given.clear()
        assert strategy.allocate(GROUP, members[0], queues, members) == kept

    def test_a_stranger_gets_nothing(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            for stranger in [*sorted(set(self.client_names).difference(members))[:1], "stranger", ""]:
                if self.reads_members:
                    assert strategy.allocate(GROUP, stranger, queues, members) == [], (stranger, queues, members)

    def test_nothing_comes_of_no_queues_and_of_no_members(self, strategy: AllocationStrategy) -> None:
        queues, members = next(self.groups())
        if self.reads_queues:
            assert strategy.allocate(GROUP, members[0], [], members) == []
        if self.reads_members:
            assert strategy.allocate(GROUP, members[0], queues, []) == []
            assert strategy.allocate(GROUP, members[0], [], []) == []

    def test_shares_are_even(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            sizes = [len(given) for given in played(strategy, queues, members).values()]
            if self.spread is not None:
                assert max(sizes) - min(sizes) <= self.spread, (queues, members)

    def test_a_member_that_leaves_or_joins_moves_no_queue_of_others(self, strategy: AllocationStrategy) -> None:
        for queues, members in self.groups():
            if not self.moves_only_what_it_must or len(members) < 2:
                continue
            together = readers_of(played(strategy, queues, members))
            for left in members:
                without = readers_of(played(strategy, queues, [member for member in members if member != left]))
                moved = {queue for queue in queues if together.get(queue) != without.get(queue)}
                assert all(together.get(queue) == left for queue in moved), (left, queues, members)


def played(
    strategy: AllocationStrategy,
    queues: Sequence[MessageQueue],
    members: Sequence[str],
    known: Sequence[str] | None = None,
) -> Plan:
    """Return the assignment of each of *members*, called in this order; *known* is the sorted group if its order
    differs."""
    return {member: strategy.allocate(GROUP, member, queues, known or members) for member in members}


def readers_of(plan: Plan) -> dict[MessageQueue, str]:
    """Return queue to its reader, for an assignment without shared queues."""
    return {queue: member for member, given in plan.items() for queue in given}
