import pytest

from gantrymq.errors import FormatError
from gantrymq.formats.config import ConsumerOffsetsFile, pretty
from gantrymq.formats.config.consumer_offsets import topics_by_group
from gantrymq.loose_json import loads
from gantrymq.model.data_version import DataVersion


def test_offsets_are_written_with_javas_names():
    offsets = ConsumerOffsetsFile({"T@G": {0: 5, 3: 7}}, DataVersion(2, 0, 9))
    assert offsets.to_json() == {
        "dataVersion": {"counter": 2, "stateVersion": 0, "timestamp": 9},
        "groupTopicMap": {"G": ["T"]},
        "offsetTable": {"T@G": {0: 5, 3: 7}},
    }
    assert ConsumerOffsetsFile.from_json(loads(pretty(offsets.to_json()))) == offsets


@pytest.mark.parametrize("text", ['{"offsetTable":{"T@G":{0:5,1:6}}}', '{"offsetTable": {"T@G": {"0": 5, "1": "6"}}}'])
def test_queue_ids_may_be_quoted_and_4_9_7_has_nothing_else(text):
    assert ConsumerOffsetsFile.from_json(loads(text)) == ConsumerOffsetsFile({"T@G": {0: 5, 1: 6}})


def test_the_topics_of_a_group_are_derived_and_what_is_stored_of_them_is_ignored():
    read = ConsumerOffsetsFile.from_json({"groupTopicMap": {"Old": ["Gone"]}, "offsetTable": {"T@G": {0: 1}}})
    assert read.to_json()["groupTopicMap"] == {"G": ["T"]}


def test_broadcast_entries_name_no_topic_of_a_group():
    assert topics_by_group(["T@G@broadcast", "T@G", "U@G", "T@H"]) == {"G": ["T", "U"], "H": ["T"]}


def test_the_pull_offsets_of_5_5_0_survive():
    read = ConsumerOffsetsFile.from_json(loads('{"offsetTable":{},"pullOffsetTable":{"T@G":{0:30}}}'))
    assert read.to_json()["pullOffsetTable"] == {"T@G": {0: 30}}


def test_light_groups_have_a_table_of_their_own():
    table = {"%LMQ%q@%LMQ%g": {0: 4}, "%LMQ%q@G": {0: 5}, "T@%LMQ%g": {1: 6}}
    offsets = ConsumerOffsetsFile(table, DataVersion(0, 0, 9), light=True)
    written = offsets.to_json()
    assert written["lmqOffsetTable"] == {"%LMQ%q@%LMQ%g": 4}
    assert written["offsetTable"] == {"%LMQ%q@G": {0: 5}, "T@%LMQ%g": {1: 6}}
    assert ConsumerOffsetsFile.from_json(loads(pretty(written)), light=True) == offsets
    with pytest.raises(FormatError, match="lmqOffsetTable of q@g holds 'x'"):
        ConsumerOffsetsFile.from_json({"lmqOffsetTable": {"q@g": "x"}}, light=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"offsetTable":[]}', "offsetTable holds"),
        ('{"offsetTable":{"T@G":{"x":1}}}', "offsetTable of T@G holds 'x'"),
        ('{"offsetTable":{"T@G":{0:"y"}}}', "offsetTable of T@G, queue 0 holds 'y'"),
        ('{"offsetTable":{"T@G":7}}', "offsetTable of T@G holds 7"),
    ],
)
def test_a_member_of_the_wrong_type_is_named(text, says):
    with pytest.raises(FormatError, match=says):
        ConsumerOffsetsFile.from_json(loads(text))
