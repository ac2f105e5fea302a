"""The dispatcher topic_counts keeps the contract of dispatchers."""

import pytest

from gantrymq.config import Settings
from gantrymq.errors import StoreError
from gantrymq.interfaces import StoreContext
from gantrymq.world.real import real_world
from gantrymq_example.counts import TopicCounts, counts_file
from gantrymq_testing import DispatcherContract


class TestTopicCountsContract(DispatcherContract):
    def make_dispatcher(self, context):
        return TopicCounts(context)

    def outcome(self, dispatcher):
        return dispatcher.counts


class TestTopicCountsThatWritesOften(TestTopicCountsContract):
    def make_dispatcher(self, context):
        return TopicCounts(context, write_every=3)


def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path):
    path = counts_file(tmp_path)
    path.parent.mkdir(parents=True)
    for content in ("", "[]", '{"position": 1}', '{"position": "x", "counts": {}}'):
        path.write_text(content)
        with pytest.raises(StoreError, match="move it away to count the log again"):
            TopicCounts(StoreContext(real_world(), tmp_path, Settings(())))
