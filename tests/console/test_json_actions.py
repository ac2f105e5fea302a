"""Actions in JSON: what is not understood is refused, because a change cannot be taken back."""

from __future__ import annotations

import re

import pytest

from gantrymq_console.running import SECTIONS

ACTIONS = [action for section in SECTIONS for action in section.actions]


def post(visitor, path, body):
    options = {"content": body} if isinstance(body, str) else {"json": body}
    headers = {"x-csrf-token": visitor.get("/new/topic").form("/new/topic").fields["csrf"]}
    return visitor.request("POST", f"/api/v1{path}", headers=headers, **options)


def has_topic(visitor):
    return visitor.request("GET", "/api/v1/topics/New").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"dry_run": "yes"},
        {"dry_run": "True"},
        {"dry_run": "1"},
        {"dry_run": "false"},
        {"dry_run": ""},
        {"dryrun": "true"},
        {"Dry_Run": "true"},
        {"quues": "4"},
        '{"topic": "New", "read_queues": "2", "dry_run": "true", "dry_run": "false"}',
        '{"topic": "New", "read_queues": "2", "read_queues": "3"}',
    ],
)
def test_what_is_not_understood_changes_nothing(visitor, body):
    found = post(visitor, "/new/topic", body if isinstance(body, str) else {"topic": "New", "read_queues": "2", **body})
    assert found.status_code == 400, found.text
    assert not has_topic(visitor)


def test_a_dry_run_in_the_address_changes_nothing(visitor):
    assert post(visitor, "/new/topic?dry_run=true", {"topic": "New", "read_queues": "2"}).status_code == 400
    assert not has_topic(visitor)


def test_a_dry_run_returns_the_preview_and_without_it_the_change_is_made(visitor):
    assert post(visitor, "/new/topic", {"topic": "New", "read_queues": "2", "dry_run": "true"}).json()
    assert not has_topic(visitor)
    assert post(visitor, "/new/topic", {"topic": "New", "read_queues": "2"}).json()["done"]
    assert has_topic(visitor)


@pytest.mark.parametrize("action", ACTIONS, ids=[each.path for each in ACTIONS])
def test_no_action_takes_an_unknown_field(visitor, action):
    found = post(visitor, re.sub(r"{\w+}", "x", action.path), {"dryrun": "true"})
    assert (found.status_code, found.json()["error"][:7]) == (400, "dryrun:")
