"""The group table: automatic creation, forbidden topics, deletion."""

from __future__ import annotations

import pytest

from gantrymq.broker.tables.groups import GroupTable
from gantrymq.errors import GroupNotExist, InvalidParameter
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
    assert groups.known("CG") is None
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
