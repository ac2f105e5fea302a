"""The chaos tests' own checks detect the faults they are for, and the proxy finds frame boundaries."""

from typing import Any

import pytest
from chaos_rig.proxy import FRAME, FrameMeter
from message_history import (
    History,
    Place,
    assert_all_came,
    assert_all_there,
    assert_in_order,
    assert_sent_once,
    stored_at,
)

FOUND = {Place("a", 0, number): f"once-0-{number}" for number in range(4)}


def got(*offsets: int) -> list[dict[str, Any]]:
    """Output of a consumer that received these offsets, one line for each message."""
    return [{"b": "a", "q": 0, "o": offset, "body": f"once-0-{offset}", "at": at} for at, offset in enumerate(offsets)]


def test_what_is_well_passes() -> None:
    assert_all_there({Place("a", 0, 2): "once-0-2"}, FOUND)
    assert_sent_once(FOUND, "once")
    assert_all_came(FOUND, got(0, 1, 2, 3))
    assert assert_in_order(got(0, 1, 2, 1, 2, 3)) == 2


@pytest.mark.parametrize(
    "acknowledged", [{Place("a", 0, 4): "once-0-4"}, {Place("a", 0, 1): "once-0-2"}], ids=["lost", "moved"]
)
def test_a_message_that_is_not_at_its_place_is_noticed(acknowledged: dict[Place, str]) -> None:
    with pytest.raises(AssertionError, match="lost"):
        assert_all_there(acknowledged, FOUND)


def test_a_message_that_is_there_twice_or_before_its_predecessor_is_noticed() -> None:
    with pytest.raises(AssertionError, match="once-0-3"):
        assert_sent_once({**FOUND, Place("a", 0, 4): "once-0-3"}, "once")
    with pytest.raises(AssertionError, match="behind index 3"):
        assert_sent_once({**FOUND, Place("a", 0, 3): "once-0-1", Place("a", 0, 1): "once-0-3"}, "once")


def test_a_message_that_never_came_or_came_changed_is_noticed() -> None:
    with pytest.raises(AssertionError, match="never came"):
        assert_all_came(FOUND, got(0, 1, 3))
    with pytest.raises(AssertionError, match="not there"):
        assert_all_came(FOUND, got(0, 1, 2, 3, 4))


def test_a_message_that_came_before_its_predecessor_is_noticed() -> None:
    with pytest.raises(AssertionError, match="3 came when 1 was the newest"):
        assert_in_order(got(0, 1, 3, 2))
    with pytest.raises(AssertionError, match="1 came when -1 was the newest"):
        assert_in_order(got(1, 2))


def history(*sends: tuple[int, float, float]) -> History:
    """The history of sends: offset, begin and end of each."""
    found = History()
    for offset, begun, ended in sends:
        found.acknowledge(f"once-0-{offset}", Place("a", 0, offset), begun, ended)
    return found


def test_a_history_that_is_well_passes() -> None:
    found = history((0, 0, 1), (2, 0, 4), (1, 3, 3.5), (3, 4, 5))
    for place, body in FOUND.items():
        found.saw(place, body)
    found.judge(FOUND)
    found.judge(FOUND, {})
    assert found.longest_stall_s() == 2.5


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (history((0, 0, 1), (4, 1, 2)), "1 of 2 lost"),
        (history((1, 0, 1), (0, 2, 3)), "is before it"),
        (history((2, 0, 1), (3, 0, 9), (1, 2, 3)), "is before it"),
        (history((1, 0, 1), (1, 2, 3)), "one place"),
    ],
    ids=["lost", "order", "order of three", "one place twice"],
)
def test_a_history_with_losses_or_disorder_is_noticed(found: History, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        found.judge(FOUND)


def test_a_message_that_only_a_consumer_saw_is_noticed() -> None:
    found = history()
    found.saw(Place("a", 0, 4), "once-0-4")
    found.judge(FOUND, {Place("a", 0, 4): "once-0-4"})
    with pytest.raises(AssertionError, match="which no log has"):
        found.judge(FOUND)
    found.saw(Place("a", 0, 4), "other")
    with pytest.raises(AssertionError, match="then other"):
        found.judge(FOUND, {Place("a", 0, 4): "once-0-4"})


def test_two_masters_of_one_epoch_are_noticed() -> None:
    history = History()
    for log_offset, server in ((0, "10.0.0.1:10911"), (500, "10.0.0.2:10911"), (900, "10.0.0.2:10911")):
        history.acknowledge("one", Place("a", 0, log_offset), 1.0, 2.0, log_offset, server)
    history.judge_epochs([(1, 0), (2, 500)])
    history.judge_epochs([(1, 0), (2, 500), (4, 700)])
    with pytest.raises(AssertionError, match="of epoch 1, in which 10.0.0.1:10911 acknowledged"):
        history.judge_epochs([(1, 0), (2, 900)])


def test_the_id_of_a_message_tells_where_it_was_stored() -> None:
    assert stored_at("0A00000100002A9F0000000000001388") == ("10.0.0.1:10911", 5000)


def test_the_proxy_knows_whether_it_cuts_inside_a_frame() -> None:
    stream = (FRAME.pack(5) + b"12345") * 2
    for cut in range(len(stream) + 1):
        meter = FrameMeter()
        whole = meter.feed(stream[:cut])
        assert (whole, meter.inside) == (cut // 9 * 9, cut % 9 > 0)
        assert meter.feed(stream[cut:]) == (len(stream) - cut)
        assert not meter.inside
