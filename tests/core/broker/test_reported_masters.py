"""Which master a slave has, when name servers disagree."""

import logging

import pytest

from gantrymq.broker.registering.reported_masters import Master, ReportedMasters

X, Y = Master("x:1", "x:2"), Master("y:1", "y:2")


@pytest.mark.parametrize(
    ("answers", "present"),
    [
        ([("a", None)], None),
        ([("a", X)], X),
        ([("a", None), ("b", X)], X),
        ([("a", X), ("b", None), ("a", X)], X),
        ([("a", X), ("a", None)], X),  # no name server tells another one
        ([("a", X), ("b", Y), ("a", X), ("b", Y)], X),
        ([("a", X), ("b", Y), ("a", None)], Y),
        ([("a", X), ("b", Y), ("a", Y)], Y),
        ([("a", X), ("a", Y)], Y),
        ([("a", X), ("b", Y), ("a", "lost")], Y),
        ([("a", X), ("a", "lost"), ("b", None)], X),
        ([("a", X), ("a", "lost"), ("b", Y), ("a", X)], Y),
    ],
)
def test_the_present_master_stays_while_any_name_server_tells_it(answers, present):
    masters, changes = ReportedMasters(), []
    for name_server, told in answers:
        before = masters.present
        changed = masters.lost(name_server) if told == "lost" else masters.heard(name_server, told)
        assert changed is (masters.present != before)
        changes.append(masters.present)
    assert masters.present == present


def test_a_disagreement_is_logged_once_and_again_after_it_ended(caplog):
    caplog.set_level(logging.WARNING)
    masters = ReportedMasters()
    for _ in range(3):
        masters.heard("a", X)
        masters.heard("b", Y)
    (record,) = caplog.records
    assert "x:1, and y:1" in record.getMessage()
    masters.heard("b", X)
    masters.heard("b", Y)
    assert len(caplog.records) == 2
