"""What may stand behind ``--to``, and what a move of a queue means."""

import random

import click
import pytest

from gantrymq.client.admin.offsets import OffsetMove, refuse_outside
from gantrymq.errors import InvalidParameter
from gantrymq_admin.commands.group_reset import FIRST_TIME_MS, parse_target

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "edge", "time_ms", "queue_offset"),
    [
        ("earliest", "earliest", None, None),
        ("LATEST", "latest", None, None),
        ("0", "", None, 0),
        (str(FIRST_TIME_MS - 1), "", None, FIRST_TIME_MS - 1),
        (str(FIRST_TIME_MS), "", FIRST_TIME_MS, None),
        ("2026-11-21 10:00:00+00:00", "", 1_795_255_200_000, None),
        (str(NOW_MS), "", NOW_MS, None),
    ],
)
def test_an_end_an_offset_or_a_time(text, edge, time_ms, queue_offset):
    found = parse_target(text, NOW_MS)
    assert (found.edge, found.time_ms, found.queue_offset, found.text) == (edge, time_ms, queue_offset, text)


@pytest.mark.parametrize("text", ["", "tomorrow", "-1", "1.5", "٣", "2026-13-01"])
def test_what_is_none_of_them_is_refused(text):
    with pytest.raises(click.BadParameter, match="is none of earliest, latest, a queue offset"):
        parse_target(text, NOW_MS)


def test_a_time_to_come_is_refused():
    with pytest.raises(click.BadParameter, match="is still to come; latest passes over all there is now"):
        parse_target(str(NOW_MS + 1), NOW_MS)


def test_ends_are_known_at_once_and_times_are_not():
    targets = [parse_target(text, NOW_MS) for text in ("earliest", "latest", "7", str(FIRST_TIME_MS))]
    assert [each.at_once(3, 9) for each in targets] == [3, 9, 7, None]


def test_what_is_passed_over_and_read_again_adds_up():
    """The messages that a group reads from its old place less what is passed over are those from its new place."""
    draw = random.Random(15)
    for _ in range(2000):
        lowest = draw.randrange(5)
        end = lowest + draw.randrange(6)
        before = draw.choice([None, draw.randrange(12)])
        after = draw.randint(lowest, end)
        move = OffsetMove("b", 0, lowest, end, before, after)
        old = range(lowest, end) if before is None else range(min(max(before, lowest), end), end)
        assert len(old) - move.skipped == end - after


def test_an_offset_that_a_queue_does_not_have_is_refused_with_the_first_of_them():
    moves = [OffsetMove("b", queue_id, 2, 5, None, after) for queue_id, after in enumerate((2, 5, 6, 1))]
    with pytest.raises(InvalidParameter, match=r"offset 6 is not in queue 2 of b \(and 1 more\), which has 2 to 5"):
        refuse_outside(moves)
    refuse_outside(moves[:2])
