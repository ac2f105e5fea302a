import pytest

from gantrymq.errors import FormatError
from gantrymq.formats.config import GroupsFile
from gantrymq.model.data_version import DataVersion
from gantrymq.model.group import GroupConfig


def test_a_group_is_read_and_written_with_javas_names():
    groups = GroupsFile({"G": GroupConfig("G", retry_queues=2)}, {"G": {"T": 4}}, DataVersion(1, 0, 7))
    members = groups.to_json()
    assert list(members) == ["dataVersion", "forbiddenTable", "subscriptionGroupTable"]
    assert members["subscriptionGroupTable"]["G"]["retryQueueNums"] == 2
    assert "subscriptionDataSet" not in members["subscriptionGroupTable"]["G"]
    assert GroupsFile.from_json(members) == groups


def test_4_9_7_leaves_members_out():
    read = GroupsFile.from_json({"subscriptionGroupTable": {"G": {"groupName": "G", "retryMaxTimes": 3}}})
    assert read.groups == {"G": GroupConfig("G", retry_max_times=3)}
    assert read.forbidden == {}


def test_members_we_do_not_know_survive():
    stored = GroupConfig("G").to_json() | {"liteBindTopic": "T"}
    read = GroupsFile.from_json({"subscriptionGroupTable": {"G": stored}, "more": [1]})
    written = read.to_json()
    assert written["more"] == [1]
    assert written["subscriptionGroupTable"]["G"] == dict(sorted(stored.items()))


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"subscriptionGroupTable": 1}, "subscriptionGroupTable holds 1"),
        ({"subscriptionGroupTable": {"G": {"brokerId": "one"}}}, "group G: "),
        ({"forbiddenTable": {"G": {"T": "x"}}}, "forbiddenTable of G, topic T holds 'x'"),
        ({"forbiddenTable": {"G": 3}}, "forbiddenTable of G holds 3"),
    ],
)
def test_a_member_of_the_wrong_type_is_named(members, says):
    with pytest.raises(FormatError, match=says):
        GroupsFile.from_json(members)
