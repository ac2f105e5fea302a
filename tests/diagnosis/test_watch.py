"""Conflicts over time: each is found when it begins, reported once, and ends when members leave."""

import random

import pytest

from gantrymq.interfaces import ConsumerHeartbeat
from gantrymq.model.subscription import Subscription
from gantrymq_diagnosis import watch
from gantrymq_diagnosis.conflicts import Kind, conflicts_among, conflicts_between, statement_of
from gantrymq_diagnosis.watch import HEARD_S, QUIET_S, Watch


def heard(expression="*", group="CG", type="CONSUME_PASSIVELY", model="CLUSTERING"):
    wanted = [Subscription("T", expression)]
    return ConsumerHeartbeat(group, type, model, "CONSUME_FROM_LAST_OFFSET", False, wanted)


class Group:
    """A watch, and the connections that are members of one group."""

    def __init__(self):
        self.watch = Watch()
        self.members = set()

    def beat(self, who, client_id, what, now_s, join=True):
        """The news of a heartbeat."""
        says = self.watch.statement(who, client_id, f"h:{who}", what)
        if self.watch.heard(who, "CG", says, now_s):
            return []
        news = self.watch.news("CG", self.watch.check(who, "CG", says, lambda: self.members, now_s), now_s)
        if join:
            self.watch.join(who, "CG", says, now_s)
            self.members.add(who)
        return [each.kind for each in news]

    def close(self, who):
        self.watch.closed(who)
        self.members.discard(who)

    def standing(self):
        return {each.kind for each in self.watch.conflicts("CG", self.members)}


def test_a_conflict_is_news_once():
    group = Group()
    assert group.beat(1, "a", heard(), 0) == []
    assert group.beat(2, "b", heard("TagA"), 1) == [Kind.SUBSCRIPTIONS]
    assert group.standing() == {Kind.SUBSCRIPTIONS}
    for now_s in range(30, 3600, 30):
        assert group.beat(1, "a", heard(), now_s) == group.beat(2, "b", heard("TagA"), now_s) == []


def test_a_known_conflict_is_not_reported_again_when_another_member_joins():
    group = Group()
    group.beat(1, "a", heard(), 0)
    assert group.beat(2, "b", heard("TagA"), 1) == [Kind.SUBSCRIPTIONS]
    assert group.beat(3, "c", heard(), QUIET_S + 100) == []
    assert group.standing() == {Kind.SUBSCRIPTIONS}
    assert group.watch.disputed() == ["CG"]
    for who in (1, 2, 3):
        group.close(who)
    assert group.watch.disputed() == []


def test_one_that_is_refused_again_and_again_is_news_once():
    group = Group()
    group.beat(1, "a", heard(), 0)
    assert group.beat(2, "b", heard("TagA"), 1, join=False) == [Kind.SUBSCRIPTIONS]
    assert [group.beat(2, "b", heard("TagA"), now_s, join=False) for now_s in range(30, 3600, 30)] == [[]] * 119
    assert group.standing() == set()


def test_it_is_over_when_the_member_leaves_and_news_again_after_a_quiet_time():
    group = Group()
    group.beat(1, "a", heard(), 0)
    group.beat(2, "b", heard("TagA"), 1)
    group.close(2)
    assert group.standing() == set()
    assert group.beat(3, "b", heard("TagA"), 2) == []
    group.close(3)
    assert group.beat(4, "b", heard("TagA"), 2 + QUIET_S) == [Kind.SUBSCRIPTIONS]


def test_a_member_that_says_something_else_is_looked_at_again():
    group = Group()
    group.beat(1, "a", heard(), 0)
    group.beat(2, "b", heard(), 0)
    assert group.beat(2, "b", heard("TagB"), 30) == [Kind.SUBSCRIPTIONS]
    assert group.beat(2, "b", heard(), 60) == []
    assert group.standing() == set()


def test_version_2_heartbeats_without_subscriptions_change_nothing():
    group = Group()
    group.beat(1, "a", heard(), 0)
    short = heard()._replace(subscriptions=None)
    assert group.beat(1, "a", short, 30) == []
    assert group.watch.says("CG", 1).wants == {"T": "*"}


def test_a_client_that_comes_back_while_its_old_connection_is_silent_is_no_second_one():
    group = Group()
    group.beat(1, "a", heard(), 0)
    assert group.beat(2, "a", heard(), HEARD_S, join=False) == []
    assert group.beat(2, "a", heard(), HEARD_S - 1) == [Kind.CLIENT_ID]


def test_members_that_are_gone_are_forgotten():
    group = Group()
    group.beat(1, "a", heard(), 0)
    group.members.clear()  # it left, its connection stays
    assert group.beat(2, "b", heard("TagA"), 1) == []
    assert group.watch.says("CG", 1) is None


@pytest.mark.parametrize(
    ("expressions", "most"), [(["*"], 0), (["*", "TagA"], 1), ([f"Tag{each}" for each in range(300)], 100)]
)
def test_a_new_member_is_compared_with_different_statements_only(monkeypatch, expressions, most):
    group, compared = Group(), []
    monkeypatch.setattr(watch, "conflicts_between", lambda *pair: compared.append(pair) or conflicts_between(*pair))
    for who in range(600):
        compared.clear()
        group.beat(who, f"c{who}", heard(expressions[who % len(expressions)]), 0)
        assert len(compared) <= most
    assert group.standing() == ({Kind.SUBSCRIPTIONS} if most else set())


def test_members_of_a_group_without_conflicts_are_not_listed_when_another_joins():
    says = Watch()
    for who in range(3):
        statement = says.statement(who, f"c{who}", f"h:{who}", heard())
        assert says.check(who, "CG", statement, pytest.fail, 0) == []
        says.join(who, "CG", statement, 0)


def test_nothing_is_kept_of_closed_connections():
    group = Group()
    for who in range(100):
        group.beat(who, f"c{who}", heard(), 0)
        group.close(who)
    assert (group.watch._groups, group.watch._groups_of) == ({}, {})


def seen_lately(group, now_s):
    """Kinds of conflicts within their quiet time, so that they are not reported again."""
    return [kind for (_, kind, _), at in group.watch._found_s.items() if now_s - at < QUIET_S]


def test_random_lives_of_a_group_against_all_pairs():
    """Current conflicts are those of all pairs of members; each was reported when it began, or has just ended."""
    for seed in range(60):
        rng = random.Random(seed)
        group, said, now_s, told = Group(), {}, 0.0, set()
        for _ in range(120):
            now_s += rng.choice((0, 1, 30, 2 * QUIET_S))
            told &= {each.kind for each in conflicts_among("CG", said.values())} | set(seen_lately(group, now_s))
            who = rng.randrange(6)
            if rng.random() < 0.25:
                group.close(who)
                said.pop(who, None)
            else:
                what = heard(
                    rng.choice(("*", "TagA", "TagA||TagB")),
                    type=rng.choice(("CONSUME_PASSIVELY",) * 4 + ("CONSUME_ACTIVELY",)),
                    model=rng.choice(("CLUSTERING",) * 4 + ("BROADCASTING",)),
                )
                client = rng.choice((f"c{who}", "same"))
                told |= set(group.beat(who, client, what, now_s))
                said[who] = statement_of(client, f"h:{who}", what)
            assert group.members == set(said)
            expected = {each.kind for each in conflicts_among("CG", said.values())}
            assert group.standing() == expected
            assert expected - {Kind.CLIENT_ID} <= told


def test_members_that_want_the_same_share_what_they_want():
    group = Group()
    for who in range(3):
        group.beat(who, f"c{who}", heard(), 0)
    assert len({id(group.watch.says("CG", who).wants) for who in range(3)}) == 1
