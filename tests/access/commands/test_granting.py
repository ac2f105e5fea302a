"""Entries that a task needs, and how they join the entries that a user has."""

import pytest

from gantrymq.errors import InvalidParameter
from gantrymq_access.granting import Task, granted, needs_of
from gantrymq_access.records import Entry, EntryAction, EntryResource


def texts(task, cluster="C"):
    return {str(each.resource): ",".join(action.value for action in each.actions) for each in needs_of(task, cluster)}


@pytest.mark.parametrize(
    ("task", "entries"),
    [
        (Task(produce=["Orders"]), {"Topic:Orders": "Pub", "Topic:RMQ_SYS_TRACE_TOPIC": "Pub"}),
        (Task(produce=["orders*"], trace=False), {"Topic:orders*": "Pub"}),
        (
            Task(consume=["Orders"], groups=["billing"], trace=False),
            {"Topic:Orders": "Sub,Get", "Group:billing": "Sub,Get"},
        ),
        (
            Task(produce=["Orders"], consume=["Orders"], groups=["billing"], trace=False),
            {"Topic:Orders": "Pub,Sub,Get", "Group:billing": "Sub,Get"},
        ),
        (
            Task(consume=["Questions"], groups=["g"], reply=True, trace=False),
            {"Topic:Questions": "Sub,Get", "Group:g": "Sub,Get", "Topic:C_REPLY_TOPIC": "Pub"},
        ),
        (Task(monitor=True), {"Cluster:C": "Get", "Topic:*": "Get", "Group:*": "Get"}),
        (
            Task(operate=True),
            {
                "Cluster:C": "Update,Get",
                "Topic:*": "Create,Update,Delete,Get",
                "Group:*": "Create,Update,Delete,Get",
            },
        ),
    ],
)
def test_a_task_needs_these_entries(task, entries):
    assert texts(task) == entries


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (Task(), "say what the user does"),
        (Task(consume=["Orders"]), "a consumer needs a group: add --group"),
        (Task(groups=["billing"]), "add --consume TOPIC"),
        (Task(reply=True, produce=["Orders"]), "add --consume TOPIC"),
    ],
)
def test_a_task_that_says_too_little_is_refused(task, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        needs_of(task, "C")


def entry(actions, *, is_allowed=True, sources=()):
    wanted = tuple(EntryAction(each) for each in actions.split(","))
    return Entry(EntryResource.parse("Topic:Orders"), wanted, is_allowed, sources)


def missing(*existing, sources=()):
    """The entry to write so that one may send to Orders."""
    (need,) = needs_of(Task(produce=["Orders"], trace=False), "C")
    return granted(existing, need, sources)


def test_actions_are_added_to_the_entry_of_the_resource():
    assert missing() == entry("Pub")
    assert missing(entry("Sub,Get")) == entry("Pub,Sub,Get")
    assert missing(entry("Get", sources=("10.0.0.0/8",)), sources=("10.0.0.0/8",)) == entry(
        "Pub,Get", sources=("10.0.0.0/8",)
    )


@pytest.mark.parametrize("existing", [entry("Pub"), entry("All"), entry("Pub,Sub")])
def test_an_entry_that_allows_it_stays(existing):
    assert missing(existing) is None


@pytest.mark.parametrize(
    ("existing", "sources", "sentence"),
    [
        (entry("Sub", is_allowed=False), (), "that denies: Deny Sub on Topic:Orders"),
        (entry("Pub", sources=("10.0.0.0/8",)), (), "for other addresses: Allow Pub on Topic:Orders from 10.0.0.0/8"),
        (entry("Pub"), ("10.0.0.0/8",), "for other addresses: Allow Pub on Topic:Orders"),
    ],
)
def test_a_grant_replaces_no_entry_that_means_something_else(existing, sources, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        missing(existing, sources=sources)
