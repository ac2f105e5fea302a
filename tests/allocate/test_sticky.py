"""STICKY: even shares, few moves, no hidden state."""

import random

from gantrymq.model.queue import MessageQueue
from gantrymq_allocate import Averagely, Sticky


def topic(n, name="T"):
    return [MessageQueue(name, "broker-a", i) for i in range(n)]


def plan(strategy, queues, members):
    """Member to queues."""
    return {member: strategy.allocate("g", member, queues, members) for member in members}


def moved(before, after):
    """The number of queues with another reader."""
    reader = {queue: member for member, given in before.items() for queue in given}
    return sum(reader.get(queue) != member for member, given in after.items() for queue in given)


def fewest(before, queues, members):
    """The number of queues that must move for even shares: those that no member can keep."""
    size, more = divmod(len(queues), len(members))
    had = [len(set(before.get(member, ())) & set(queues)) for member in members]
    return len(queues) - sum(min(n, size) for n in had) - min(more, sum(n > size for n in had))


def chances():
    chance = random.Random(7)
    for i in range(200):
        members = sorted(f"10.0.0.{k}@{i}" for k in range(chance.randint(1, 8)))
        yield chance, topic(chance.randint(1, 40), f"T{i}"), members


def test_with_the_past_it_moves_as_few_queues_as_even_shares_allow():
    for chance, queues, members in chances():
        had = {member: [] for member in members}
        for queue in queues:
            had[chance.choice(members)].append(queue)
        left = sorted(chance.sample(members, chance.randint(1, len(members))))
        for now in (members, left, sorted([*left, "new@1", "new@2"])):
            after = plan(Sticky(had), queues, now)
            sizes = [len(given) for given in after.values()]
            assert max(sizes) - min(sizes) <= 1
            assert sum(sizes) == len(queues)
            assert moved(had, after) == fewest(had, queues, now)


def test_a_past_that_is_even_already_stays():
    for _, queues, members in chances():
        had = plan(Averagely(), queues, members)
        assert plan(Sticky(had), queues, members) == had


def test_queues_that_are_gone_or_new_are_no_problem():
    had = plan(Sticky(), topic(8), ["c1", "c2"])
    assert sum(map(len, plan(Sticky(had), topic(5), ["c1", "c2"]).values())) == 5
    more = plan(Sticky(had), topic(12), ["c1", "c2"])
    assert moved(had, more) == 4
    assert all(set(had[member]) <= set(more[member]) for member in had)


def test_without_a_past_most_queues_stay_when_a_member_leaves():
    totals = {"STICKY": 0, "AVG": 0, "least": 0}
    for chance, queues, members in chances():
        if len(members) < 2:
            continue
        left = chance.choice(members)
        rest = [member for member in members if member != left]
        for strategy in (Sticky(), Averagely()):
            totals[strategy.name] += moved(plan(strategy, queues, members), plan(strategy, queues, rest))
        totals["least"] += len(plan(Sticky(), queues, members)[left])
    assert totals["STICKY"] < 1.35 * totals["least"]
    assert totals["STICKY"] < 0.75 * totals["AVG"]


def test_members_with_even_shares_differ_from_topic_to_topic():
    first = {Sticky().allocate("g", "c1", topic(1, f"T{i}"), ["c1", "c2"]) != [] for i in range(20)}
    assert first == {True, False}


def test_an_id_that_is_listed_twice_counts_once():
    assert Sticky().allocate("g", "c1", topic(4), ["c1", "c1", "c2"]) == Sticky().allocate(
        "g", "c1", topic(4), ["c1", "c2"]
    )
