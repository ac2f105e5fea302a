import json

import pytest

from gantrymq.world.real import RealFiles
from gantrymq_storage_mmap.queues.topic_types import topic_types

TABLE = {"B": {"topicName": "B", "attributes": {"queue.type": "BatchCQ"}}, "S": {"topicName": "S"}}
TEXT = json.dumps({"topicConfigTable": TABLE})


def types(root, text, backup=None):
    folder = root / "config"
    folder.mkdir()
    for name, content in (("topics.json", text), ("topics.json.bak", backup)):
        if content is not None:
            (folder / name).write_text(content)
    before = sorted(path.name for path in folder.iterdir())
    found = topic_types(RealFiles(), root)
    assert sorted(path.name for path in folder.iterdir()) == before
    return found


def test_the_broker_s_file_says_which_topics_have_batch_queues(tmp_path):
    assert types(tmp_path, TEXT) == {"B": True, "S": False}


@pytest.mark.parametrize(
    "text", [None, "", "{", "7", '{"topicConfigTable": 7}', '{"topicConfigTable": {"B": 7}}', "\0"]
)
def test_a_file_that_cannot_be_read_is_left_alone_and_its_backup_counts(tmp_path, text):
    assert types(tmp_path, text, TEXT) == {"B": True, "S": False}


def test_without_a_file_nothing_is_known(tmp_path):
    assert topic_types(RealFiles(), tmp_path) == {}
    assert types(tmp_path, "{", "[") == {}
