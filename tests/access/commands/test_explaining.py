"""Decisions and the entries that they are based on."""

import pytest

from gantrymq_access.explaining import Question, explain_user
from gantrymq_access.records import (
    Acl,
    Entry,
    EntryAction,
    EntryResource,
    Policy,
    PolicyType,
    User,
    UserStatus,
    UserType,
)

ALICE = User("alice", "secret")


def entry(resource, actions, *, is_allowed=True, sources=()):
    wanted = tuple(EntryAction(each) for each in actions.split(","))
    return Entry(EntryResource.parse(resource), wanted, is_allowed, sources)


def explained(*entries, user=ALICE, action="Pub", resource="Topic:orders-1", source="", default=()):
    policies = [Policy(PolicyType.CUSTOM, entries)] if entries else []
    policies += [Policy(PolicyType.DEFAULT, default)] if default else []
    question = Question((EntryAction(action),), EntryResource.parse(resource), source)
    found = explain_user(user, Acl("alice", tuple(policies)), question)
    return found.allowed, found.sentence(question), [str(each) for each in found.others]


def test_the_strongest_entry_decides_and_the_others_are_named():
    assert explained(
        entry("Topic:*", "All"), entry("Topic:orders*", "Pub", is_allowed=False), entry("Topic:orders-1", "Pub")
    ) == (
        True,
        "the entry Allow Pub on Topic:orders-1 decides",
        ["Deny Pub on Topic:orders*", "Allow All on Topic:*"],
    )


def test_entries_of_other_actions_and_addresses_do_not_apply():
    of_network = entry("Topic:orders*", "Pub", sources=("10.0.0.0/8",))
    assert explained(entry("Topic:orders-1", "Sub"), of_network, source="192.168.0.1") == (
        False,
        "no entry allows Pub on Topic:orders-1 from 192.168.0.1",
        [],
    )
    assert explained(of_network, source="10.1.2.3")[0]
    assert not explained(of_network)[0]


def test_the_default_policy_counts_if_no_custom_entry_applies():
    assert explained(entry("Topic:bills", "Pub"), default=(entry("Topic:*", "Pub"),)) == (
        True,
        "the entry Allow Pub on Topic:* (default policy) decides",
        [],
    )


@pytest.mark.parametrize(
    ("user", "allowed", "sentence"),
    [
        (None, False, "there is no such user"),
        (User("alice", "secret", status=UserStatus.DISABLE), False, "the user is disabled, and cannot log in"),
        (User("alice", "secret", UserType.SUPER), True, "a Super user may do everything"),
        (User("alice", "secret", UserType.SUPER, UserStatus.DISABLE), False, "the user is disabled, and cannot log in"),
        (ALICE, False, "no entry allows Pub on Topic:orders-1"),
    ],
)
def test_the_user_comes_before_its_entries(user, allowed, sentence):
    assert explained(user=user) == (allowed, sentence, [])
