"""Possible conflicts between two members of a group."""

import attrs
import pytest

from gantrymq.interfaces import ConsumerHeartbeat
from gantrymq.model.subscription import Subscription
from gantrymq_diagnosis.conflicts import Kind, conflicts_among, conflicts_between, normal, statement_of


def heard(group="CG", *, type="CONSUME_PASSIVELY", model="CLUSTERING", **wants):
    subscriptions = [Subscription(topic, expression) for topic, expression in wants.items()]
    subscriptions.append(Subscription(f"%RETRY%{group}"))
    return ConsumerHeartbeat(group, type, model, "CONSUME_FROM_LAST_OFFSET", False, subscriptions)


def says(client="a", port=1, protocol="remoting", **more):
    return statement_of(client, f"10.0.0.1:{port}", heard(**more), protocol=protocol)


def kinds(new, known):
    return [each.kind for each in conflicts_between("CG", new, known)]


def test_members_that_say_the_same_do_not_disagree():
    assert kinds(says("a", T="*"), says("b", 2, T="*")) == []


@pytest.mark.parametrize(
    ("one", "other", "kind", "word"),
    [
        ({"T": "A"}, {"T": "B"}, Kind.SUBSCRIPTIONS, "'A'"),
        ({"T": "A"}, {"T": "A", "U": "*"}, Kind.SUBSCRIPTIONS, "does not subscribe"),
        ({"type": "CONSUME_ACTIVELY"}, {}, Kind.CONSUME_TYPE, "PULL"),
        ({"type": "CONSUME_POP"}, {}, Kind.CONSUME_TYPE, "POP"),
        ({"model": "BROADCASTING"}, {}, Kind.MESSAGE_MODEL, "BROADCASTING"),
    ],
)
def test_each_disagreement_has_a_sentence_that_names_both(one, other, kind, word):
    (found,) = conflicts_between("CG", says("a", **one), says("b", 2, **other))
    assert found.kind is kind
    assert word in found.reason.sentence
    assert all(name in found.reason.sentence for name in ("CG", "a (10.0.0.1:1)", "b (10.0.0.1:2)"))


def test_members_whose_protocol_pops_conflict_with_members_that_pull():
    push, simple = (says("a", protocol="grpc", type=each) for each in ("CONSUME_PASSIVELY", "CONSUME_ACTIVELY"))
    assert conflicts_among("CG", [push, attrs.evolve(simple, client_id="c")]) == []
    for popping in (push, simple):
        assert kinds(popping, says("b", 2, type="CONSUME_POP")) == []
        assert kinds(popping, says("b", 2)) == []  # its group may be set to POP
        (found,) = conflicts_among("CG", [popping, says("b", 2, type="CONSUME_ACTIVELY")])
        assert "a (10.0.0.1:1) uses POP and b (10.0.0.1:2) uses PULL" in found.reason.sentence


def test_one_client_id_on_two_connections():
    (found,) = conflicts_between("CG", says("a", 1), says("a", 2))
    assert found.kind is Kind.CLIENT_ID
    assert "10.0.0.1:2 and 10.0.0.1:1" in found.reason.sentence


def test_all_of_them_at_once():
    assert set(kinds(says(type="CONSUME_ACTIVELY", model="BROADCASTING", T="A"), says(T="B"))) == set(Kind)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("TagA || TagB", "TagB||TagA", True),
        ("*", "TagA || *", True),
        ("*", " * ", True),
        ("", "*", True),
        ("TagA", "taga", False),
        ("TagA", "*", False),
    ],
)
def test_expressions_of_the_same_meaning(one, other, equal):
    assert (normal(Subscription("T", one)) == normal(Subscription("T", other))) is equal


def test_expressions_of_another_type_are_compared_as_they_are():
    assert normal(Subscription("T", "a > 1", "SQL92")) != normal(Subscription("T", "a > 2", "SQL92"))
    assert normal(Subscription("T", "a", "sql92")) != normal(Subscription("T", "a"))


def test_a_heartbeat_without_subscriptions_goes_on_with_those_that_are_known():
    assert statement_of("a", "x:1", heard()._replace(subscriptions=None), {"T": "*"}).wants == {"T": "*"}


def test_among_many_that_agree_but_one_there_is_one_conflict():
    members = [says(str(number), number, T="*") for number in range(1000)]
    (found,) = conflicts_among("CG", [*members, says("odd", 5000, T="A")])
    assert (found.kind, found.topic) == (Kind.SUBSCRIPTIONS, "T")
    assert conflicts_among("CG", members) == []
    assert conflicts_among("CG", []) == []
