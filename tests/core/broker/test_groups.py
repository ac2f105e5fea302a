"""The group table: automatic creation, forbidden topics, deletion."""

from __future__ import annotations

import pytest

from gantrymq.broker.tables.groups import GroupTable
from gantrymq.errors import GroupNotExist, InvalidParameter, RequestRefused
from gantrymq.model import names
from gantrymq.model.data_version import DataVersion
from gantrymq.model.group import GroupConfig


@pytest.fixture
def groups(settings, clock):
    table = GroupTable(settings, clock.now_ms)
    table.add_system_groups()
    return table


def test_system_groups_are_there_from_the_start(groups):
    assert set(groups.view) == set(names.SYSTEM_GROUPS)
    assert groups.version.counter == 0


def test_a_group_is_made_on_first_use_with_rocketmq_s_defaults(groups):
    told = []
    groups.on_change(lambda: told.append(True))
    group = groups.require("CG")
    assert (group.retry_queues, group.retry_max_times, group.consume_enable) == (1, 16, True)
    assert groups.find("CG") is group
    assert told == [True]
    assert groups.version.counter == 1


def test_looking_without_use_makes_nothing(groups):
    assert groups.get("CG") is None
    assert "CG" not in groups.view


def test_no_group_is_made_when_that_is_switched_off_but_those_of_the_broker(groups, settings):
    settings.set("autoCreateSubscriptionGroup", False, "test")
    assert groups.find("CG") is None
    with pytest.raises(GroupNotExist, match="autoCreateSubscriptionGroup"):
        groups.require("CG")
    assert groups.require("CID_RMQ_SYS_NEW").name == "CID_RMQ_SYS_NEW"


@pytest.mark.parametrize("name", ["", "a b", "g" * 121, "ü"])
def test_an_illegal_name_makes_no_group(groups, name):
    assert groups.find(name) is None
    with pytest.raises(GroupNotExist):
        groups.require(name)
    with pytest.raises(InvalidParameter):
        groups.put(GroupConfig(name))


def test_a_group_may_be_forbidden_to_read_one_topic(groups):
    groups.load({}, {"CG": {"T": 1 << 2, "U": 1 << 1}}, DataVersion())
    assert not groups.may_read("CG", "T")
    assert groups.may_read("CG", "U")
    assert groups.may_read("Other", "T")


def test_a_deleted_group_takes_its_prohibitions_along(groups):
    groups.load({"CG": GroupConfig("CG")}, {"CG": {"T": 4}}, DataVersion())
    assert groups.delete("CG").name == "CG"
    assert groups.delete("CG") is None
    assert groups.may_read("CG", "T")
    assert groups.version.counter == 1


# --- by an operator -------------------------------------------------------------------------------------------------


def test_attributes_that_a_change_does_not_name_stay(groups):
    groups.update([GroupConfig("CG", attributes={"+filter": "TAG:: A"})])
    groups.update([GroupConfig("CG", retry_max_times=3)])
    group = groups.get("CG")
    assert (group.retry_max_times, group.attributes) == (3, {"filter": "TAG:: A"})
    groups.update([group])  # unchanged since it was read
    assert groups.get("CG").attributes == {"filter": "TAG:: A"}
    groups.update([GroupConfig("CG", attributes={"-filter": ""})])
    assert groups.get("CG").attributes == {}


def test_changes_of_one_group_in_one_request_add_up(groups):
    groups.update([GroupConfig("CG", attributes={"+filter": "TAG:: A"}), GroupConfig("CG", retry_max_times=3)])
    assert groups.get("CG").attributes == {"filter": "TAG:: A"}
    assert groups.get("CG").retry_max_times == 3


@pytest.mark.parametrize(
    ("name", "changes", "word"),
    [
        ("New", {"+no.such": "1"}, r"group New: attribute '\+no.such' is not one of \+filter"),
        ("New", {"no.such": "1"}, "not one of"),
        ("New", {"-filter": ""}, "is new"),
        ("Old", {"-filter": ""}, "has no attribute filter to delete"),
        ("Old", {"+filter": "TAG:: A", "-filter": ""}, "named twice"),
    ],
)
def test_an_attribute_that_cannot_be_kept_is_refused(groups, name, changes, word):
    groups.put(GroupConfig("Old"))
    with pytest.raises(RequestRefused, match=word):
        groups.update([GroupConfig("Before"), GroupConfig(name, retry_max_times=3, attributes=changes)])
    assert groups.get("Before") is groups.get("New") is None
    assert groups.get("Old").retry_max_times == 16


def test_what_earlier_versions_stored_can_be_changed(groups):
    stored = {"+filter": "TAG:: A", "+no.such": "1"}
    groups.load({"CG": GroupConfig("CG", attributes=stored)}, {}, DataVersion())
    assert groups.get("CG").attributes == {"filter": "TAG:: A", "no.such": "1"}
    groups.update([GroupConfig("CG", attributes={"-no.such": "", "-filter": ""})])
    assert groups.get("CG").attributes == {}
