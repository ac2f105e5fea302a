"""Plans: who reads what before and after, and what moves."""

import pytest

from gantrymq.model.queue import MessageQueue
from gantrymq_admin.group_moves import Move, Plan, in_words, make_plan


def q(queue_id, broker="a"):
    return MessageQueue("T", broker, queue_id)


class FirstTakesAll:
    name = "FIRST"

    def allocate(self, group, client_id, queues, client_ids):
        return list(queues) if client_id == client_ids[0] else []


def test_members_are_asked_one_by_one_with_sorted_inputs():
    made = make_plan(FirstTakesAll(), "g", [q(1), q(0)], ["c2", "c1"], ["c2"])
    assert made == Plan((q(0), q(1)), {"c1": [q(0), q(1)], "c2": []}, {"c2": [q(0), q(1)]})
    assert made.members == ["c1", "c2"]
    assert made.moves() == [Move(q(0), ("c1",), ("c2",)), Move(q(1), ("c1",), ("c2",))]


def test_a_queue_may_have_no_reader_or_several():
    made = Plan((q(0), q(1), q(2)), {"c1": [q(0)]}, {"c1": [q(1)], "c2": [q(1)]})
    assert made.moves() == [Move(q(0), ("c1",), ()), Move(q(1), (), ("c1", "c2"))]
    assert made.unread() == [q(0), q(2)]
    assert made.shared() == [q(1)]


def test_nothing_moves_where_nothing_changes():
    assert make_plan(FirstTakesAll(), "g", [q(0)], ["c1"], ["c1"]).moves() == []


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ([], "-"),
        ([q(0)], "a 0"),
        ([q(3), q(1), q(0), q(2), q(7), q(0, "b")], "a 0-3 7, b 0"),
    ],
)
def test_queues_in_words(queues, words):
    assert in_words(queues) == words
