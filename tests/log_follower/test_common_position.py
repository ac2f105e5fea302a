"""The choice of the common position."""

import zlib

import pytest
from log_follower.common_position import CommonPosition, last_start

from gantrymq.interfaces import LogRange


def records(*sizes):
    """Return records of these sizes, which all differ."""
    return b"".join(
        size.to_bytes(4, "big") + bytes([number]) * (size - 4) for number, size in enumerate(sizes, start=1)
    )


def common(mine, other, agreed=0, start=0, block=16):
    """Return the object at the end of a comparison of the logs, which begin at *start*, and the number of questions."""
    steps = CommonPosition(LogRange(start, start + len(mine)), LogRange(start, start + len(other)), agreed, block)
    count = 0
    while steps.question is not None:
        at, length = steps.question
        assert 0 < length <= block
        one, two = (log[at - start : at - start + length] for log in (mine, other))
        steps.answer(zlib.crc32(one) == zlib.crc32(two))
        count += 1
    return steps, count


@pytest.mark.parametrize("block", [1, 7, 16, 1000])
@pytest.mark.parametrize("start", [0, 4096])
def test_every_first_difference_is_found(start, block):
    log = records(10, 20, 8, 30, 12)
    for place in range(len(log)):
        other = log[:place] + bytes([log[place] ^ 255]) + log[place + 1 :]
        assert common(log, other, 0, start, block)[0].equal == start + place


@pytest.mark.parametrize(("mine", "other"), [(40, 60), (60, 40), (0, 60), (60, 0), (60, 60)])
def test_a_log_that_continues_another_is_equal_up_to_the_shorter_one(mine, other):
    log = records(10, 20, 10, 20)
    assert common(log[:mine], log[:other])[0].equal == min(mine, other)


def test_only_what_follows_the_agreed_position_is_compared():
    log = records(*[20] * 50)
    assert common(log, log, 980)[1] == 3  # the block before, and 20 bytes in two
    assert common(log, log)[1] == 63


def test_a_difference_before_the_agreed_position_begins_again_from_the_start():
    log = records(*[20] * 50)
    other = log[:510] + bytes(490)
    steps, _ = common(log, other, 980)
    assert (steps.record, steps.equal) == (0, 510)


def test_an_agreed_position_after_the_end_of_the_other_log_is_not_used():
    log = records(*[20] * 50)
    steps, _ = common(log, log[:600], 980)
    assert (steps.record, steps.equal) == (0, 600)


def test_logs_that_begin_at_different_files_are_compared_from_the_later_start():
    steps = CommonPosition(LogRange(0, 3000), LogRange(1024, 4000), 0)
    assert steps.question == (1024, 3000 - 1024)


def test_the_last_start_is_that_of_the_record_with_the_difference():
    log = records(10, 20, 8)
    found = [last_start(100, log, 100 + equal) for equal in range(39)]
    assert found == [100] * 10 + [110] * 20 + [130] * 8 + [138]
