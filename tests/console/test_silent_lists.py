"""Lists while the only broker is silent: they say that nothing is known, not that there is nothing."""

from __future__ import annotations

import pytest
from console_members import commit

from gantrymq.errors import ConnectFailed

CALLS = (
    "request",
    "request_parsed",
    "topic_configs",
    "groups",
    "group_configs",
    "consumer_connections",
    "producers",
    "runtime_info",
    "group_progress",
    "members",
    "topic_status",
    "topic_stats",
    "groups_of_topic",
    "topics_of_group",
    "query_message_page",
)
"""Calls of the client's admin that ask brokers."""


@pytest.fixture
def silent(visitor, monkeypatch):
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"1")
    commit(visitor, "billing", "Orders", 0, 0)
    visitor.get("/about")  # the console knows the broker
    visitor.cluster.forget()

    async def fail(*_given, **_more):
        raise ConnectFailed("the broker refuses connections")

    for name in CALLS:
        monkeypatch.setattr(visitor.cluster.admin, name, fail, raising=False)
    return visitor


@pytest.mark.parametrize(
    "path",
    [
        "/topics/Orders",
        "/topics/Orders/producers",
        "/topics/Orders/settings",
        "/groups",
        "/groups/billing",
        "/groups/billing/queues",
        "/groups/billing/members",
        "/groups/billing/settings",
        "/clients",
        "/delayed",
        "/transactions",
        "/search?q=x",
    ],
)
def test_an_empty_list_is_unknown(silent, path):
    page = silent.get(path)
    assert page.status == 200, page.text
    assert "broker-a" in page.text and "is missing" in page.text
    assert "Nothing is known: a server could not be asked" in page.text
    assert "TOPIC" not in silent.api(path)["command"]


def test_a_group_is_not_missing_because_its_broker_is_silent(silent):
    assert silent.get("/groups/billing/dlq").status == 504
