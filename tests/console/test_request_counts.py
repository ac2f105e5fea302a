"""How many requests a page sends to name servers and brokers, without any answer that is kept from before."""

from __future__ import annotations

import pytest
from console_members import commit
from console_requests import HOME_LIMIT, MESSAGE_LIMIT, join_group, requests_of, send_traced


def test_who_consumed_a_message_with_one_group_takes_few_requests(visitor):
    path = send_traced(visitor)
    commit(visitor, "billing", "Orders")
    page, sent = requests_of(visitor, path)
    assert "billing" in page.text and "passed" in page.text
    assert sum(sent.values()) <= MESSAGE_LIMIT, sent


@pytest.mark.parametrize("consumed", [0, 1])
def test_a_group_that_is_online_with_retries_and_traces_takes_few_requests_too(visitor, consumed):
    path = send_traced(visitor)
    join_group(visitor, consumed)
    page, sent = requests_of(visitor, path)
    assert "billing" in page.text
    assert sum(sent.values()) <= MESSAGE_LIMIT, sent
    assert sent["GET_ROUTEINFO_BY_TOPIC"] == 1  # the only broker has every topic


def test_home_takes_few_requests(visitor):
    send_traced(visitor)
    join_group(visitor, 0)
    page, sent = requests_of(visitor, "/")
    assert "billing" in page.text
    assert sum(sent.values()) <= HOME_LIMIT, sent
