import json

import pytest

from gantrymq.errors import FormatError
from gantrymq.formats.config import TopicsFile, pretty, read_topics_file
from gantrymq.model.data_version import DataVersion
from gantrymq.model.topic import TopicConfig
from gantrymq.world.real import RealFiles


def test_a_topic_is_read_and_written_with_javas_names():
    topics = TopicsFile({"T": TopicConfig("T", 8, 4, 6, order=True)}, DataVersion(3, 1, 99))
    members = topics.to_json()
    assert list(members) == ["dataVersion", "topicConfigTable"]
    assert members["dataVersion"] == {"counter": 3, "stateVersion": 1, "timestamp": 99}
    assert members["topicConfigTable"]["T"]["readQueueNums"] == 8
    assert TopicsFile.from_json(members) == topics


def test_4_9_7_leaves_members_out():
    read = TopicsFile.from_json(
        {"dataVersion": {"counter": 1, "timestamp": 5}, "topicConfigTable": {"T": {"perm": 4, "readQueueNums": 2}}}
    )
    assert read.version == DataVersion(1, 0, 5)
    assert read.topics == {"T": TopicConfig("T", read_queues=2, perm=4)}


def test_members_we_do_not_know_survive_in_alphabetical_place():
    stored = TopicConfig("T").to_json() | {"liteTopicExpiration": 7}
    read = TopicsFile.from_json({"topicConfigTable": {"T": stored}, "aNewTable": {"x": 1}})
    read.topics["U"] = TopicConfig("U")
    written = read.to_json()
    assert list(written) == ["aNewTable", "dataVersion", "topicConfigTable"]
    assert written["topicConfigTable"]["T"]["liteTopicExpiration"] == 7
    assert list(written["topicConfigTable"]["T"])[:2] == ["attributes", "liteTopicExpiration"]
    assert "liteTopicExpiration" not in written["topicConfigTable"]["U"]
    del read.topics["T"]
    assert list(read.to_json()["topicConfigTable"]) == ["U"]


def test_the_text_is_that_of_the_members_whatever_was_written_before():
    stored = TopicConfig("T").to_json() | {"liteTopicExpiration": 7}
    file = TopicsFile.from_json({"topicConfigTable": {"T": stored}, "zNewTable": {"x": [1]}})
    assert file.to_text() == pretty(file.to_json())
    file.topics |= {"U": TopicConfig("U", 1, 1), 'grün"': TopicConfig('grün"', attributes={"message.type": "FIFO"})}
    file.version = DataVersion(2, 0, 9)
    assert file.to_text() == pretty(file.to_json())
    file.topics["U"] = TopicConfig("U", 5, 5)
    del file.topics["T"]
    assert file.to_text() == pretty(file.to_json())
    assert '"readQueueNums":5' in file.to_text()
    file.topics.clear()
    assert file.to_text() == pretty(file.to_json())


def test_a_topic_that_did_not_change_is_not_written_out_again(monkeypatch):
    file = TopicsFile({name: TopicConfig(name) for name in ("A", "B")})
    written = []
    to_json = TopicConfig.to_json
    monkeypatch.setattr(TopicConfig, "to_json", lambda topic: (written.append(topic.name), to_json(topic))[1])
    file.to_text()
    file.topics["C"] = TopicConfig("C")
    file.to_text()
    assert written == ["A", "B", "C"]


def test_an_empty_file_is_an_empty_table():
    assert TopicsFile.from_json({}) == TopicsFile()
    assert TopicsFile.from_json({"topicConfigTable": None, "dataVersion": None}) == TopicsFile()


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"topicConfigTable": []}, "topicConfigTable holds"),
        ({"topicConfigTable": {"T": 5}}, "topic T holds 5"),
        ({"topicConfigTable": {"T": {"perm": "x"}}}, "topic T: "),
        ({"topicConfigTable": {"T": {"attributes": [1]}}}, "topic T: "),
        ({"dataVersion": {"counter": "many"}}, "dataVersion.counter holds 'many'"),
    ],
)
def test_a_member_of_the_wrong_type_is_named(members, says):
    with pytest.raises(FormatError, match=says):
        TopicsFile.from_json(members)


TABLE = {"B": {"topicName": "B", "attributes": {"queue.type": "BatchCQ"}}, "S": {"topicName": "S"}}
TEXT = json.dumps({"topicConfigTable": TABLE})


def looked_at(root, text, backup=None):
    folder = root / "config"
    folder.mkdir()
    for name, content in (("topics.json", text), ("topics.json.bak", backup)):
        if content is not None:
            (folder / name).write_text(content)
    before = sorted(path.name for path in folder.iterdir())
    found = read_topics_file(RealFiles(), root)
    assert sorted(path.name for path in folder.iterdir()) == before
    return found and {name: topic.has_batch_queues for name, topic in found.topics.items()}


def test_a_look_says_which_topics_have_batch_queues(tmp_path):
    assert looked_at(tmp_path, TEXT) == {"B": True, "S": False}


@pytest.mark.parametrize(
    "text", [None, "", "{", "7", "[]", '{"topicConfigTable": 7}', '{"topicConfigTable": {"B": 7}}', "\0"]
)
def test_a_look_leaves_a_file_that_cannot_be_read_alone_and_takes_its_backup(tmp_path, text):
    assert looked_at(tmp_path, text, TEXT) == {"B": True, "S": False}


def test_without_a_file_a_look_finds_nothing(tmp_path):
    assert read_topics_file(RealFiles(), tmp_path) is None
    assert looked_at(tmp_path, "{", "[") is None
