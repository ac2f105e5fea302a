"""The in-sync set of a master."""

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq_replication.election.sync_set import ANY_TABLES, Alter, SyncSet, SyncSetSettings


def sync_set(members=(1,), set_epoch=5, *, confirmed=0, end=100, least_copies=1, **rules):
    return SyncSet(
        SyncSetSettings(own_id=1, least_copies=least_copies, **rules),
        members,
        set_epoch,
        confirmed=confirmed,
        end=end,
        now=0.0,
    )


def joined(found, broker_id=2, acked=100, now=0.0, learner=False):
    found.connected(broker_id, acked, learner, now)
    return found.review(now)


def test_a_newcomer_counts_before_the_engine_is_asked():
    found = sync_set()
    assert found.confirmed == 100
    assert joined(found) == Alter(1, 5, frozenset({1, 2}))
    assert found.counted == {1, 2} and found.members == {1}
    found.appended(200)
    assert found.confirmed == 100
    found.reported(2, 150, 1.0)
    assert found.confirmed == 150 and found.review(1.0) is None
    found.accepted({1, 2}, 6)
    assert found.members == {1, 2} and found.confirmed == 150


def test_a_leaver_counts_until_the_engine_has_agreed():
    found = sync_set((1, 2), first_s=3.0)
    found.connected(2, 100, False, 0.0)
    found.appended(200)
    found.gone(2)
    change = found.review(4.0)
    assert change == Alter(1, 5, frozenset({1}))
    assert found.confirmed == 100
    found.accepted({1}, 6)
    assert found.confirmed == 200


def test_a_member_has_a_while_to_connect_to_a_new_master():
    found = sync_set((1, 2), first_s=3.0)
    assert found.review(2.9) is None
    assert found.review(3.0).members == {1}


@pytest.mark.parametrize(
    ("acked", "learner", "enters"),
    [(100, False, True), (99, False, False), (100, True, False)],
)
def test_who_may_enter(acked, learner, enters):
    """Not a learner, and not a slave that lacks what is confirmed."""
    found = sync_set()
    assert (joined(found, acked=acked, learner=learner) is not None) is enters


def test_a_slave_that_was_up_to_date_a_moment_ago_may_enter_while_the_log_grows():
    found = sync_set(end=100, max_late_s=5.0)
    found.connected(2, 0, False, 0.0)
    for second in range(1, 4):
        found.appended(100 + 50 * second)
        found.reported(2, 50 + 50 * second, float(second))  # what the master had a second before
    assert found.review(3.0) is None, "it lacks what is confirmed"
    found = sync_set(end=100, max_late_s=5.0, members=(1, 3))
    found.connected(3, 100, False, 0.0)
    found.connected(2, 0, False, 0.0)
    found.reported(2, 100, 1.0)
    found.appended(200)
    assert found.review(1.0).members == {1, 2, 3}


def test_a_slave_that_does_not_catch_up_leaves():
    found = sync_set((1, 2), max_late_s=5.0)
    found.connected(2, 100, False, 0.0)
    found.appended(200)
    found.reported(2, 120, 1.0)
    assert found.review(5.0) is None
    assert found.review(7.0).members == {1}
    idle = sync_set((1, 2), max_late_s=5.0)
    idle.connected(2, 100, False, 0.0)
    assert idle.review(500.0) is None, "it has everything"


def test_a_refused_request_counts_no_more_and_is_made_again_later():
    found = sync_set(retry_s=1.0)
    change = joined(found)
    found.refused(change.number, 0.5)
    assert found.counted == {1}
    assert found.review(1.0) is None and found.review(1.5) == Alter(2, 5, frozenset({1, 2}))


def test_a_request_without_an_answer_counts_until_the_set_epoch_moves():
    found = sync_set(retry_s=1.0)
    change = joined(found)
    found.unanswered(change.number, 3.0)
    found.gone(2)
    found.appended(200)
    assert found.counted == {1, 2} and found.confirmed == 100
    found.read({1}, 5, 3.5)
    assert found.counted == {1, 2}, "it may still have an effect"
    # It is asked for again, to settle it; then it leaves.
    change = found.review(4.0)
    assert change == Alter(2, 5, frozenset({1, 2}))
    found.accepted({1, 2}, 6)
    assert found.confirmed == 100
    change = found.review(5.0)
    assert change == Alter(3, 6, frozenset({1}))
    found.accepted({1}, 7)
    assert found.confirmed == 200


def test_a_shrink_without_an_answer_is_asked_for_again():
    found = sync_set((1, 2), retry_s=1.0, first_s=0.0)
    change = found.review(0.0)
    found.unanswered(change.number, 3.0)
    assert found.review(4.0) == Alter(2, 5, frozenset({1}))
    found.read({1}, 6, 4.0)
    assert found.counted == {1}


def test_an_engine_forgets_requests_after_a_time():
    found = sync_set(doubt_s=30.0)
    change = joined(found)
    found.unanswered(change.number, 3.0)
    found.gone(2)
    found.appended(200)
    found.read({1}, 5, 33.0)
    assert found.counted == {1, 2}
    found.read({1}, 5, 33.1)
    assert found.counted == {1} and found.confirmed == 200


def test_older_sets_are_ignored():
    found = sync_set((1, 2))
    found.accepted({1}, 4)
    found.read({1}, 5, 0.0)
    assert found.members == {1, 2}


def test_what_is_confirmed_never_goes_back_and_waits_for_members():
    found = sync_set((1, 2, 3), confirmed=40, end=100)
    assert found.confirmed == 40
    found.connected(2, 30, False, 0.0)
    assert found.confirmed == 40
    found.connected(3, 90, False, 0.0)
    assert found.confirmed == 40
    found.reported(2, 80, 1.0)
    assert found.confirmed == 80
    found.reported(7, 80, 1.0)  # not connected


def test_rocketmqs_default_confirms_what_the_master_has():
    found = sync_set((1, 2), all_in_sync=False)
    found.appended(300)
    assert found.confirmed == 300


def test_too_few_members():
    assert not sync_set((1,), least_copies=2).enough
    found = sync_set((1, 2), least_copies=2)
    assert not found.enough, "it is not connected"
    found.connected(2, 100, False, 0.0)
    assert found.enough
    found.gone(2)
    assert not found.enough


def test_a_set_does_not_become_smaller_than_the_least():
    """A member that is away may be elected: nothing is acknowledged without it."""
    found = sync_set((1, 2), least_copies=2, first_s=0.0)
    found.appended(200)
    assert found.review(60.0) is None and found.confirmed == 0
    found = sync_set((1, 2, 3), least_copies=2, first_s=0.0)
    assert found.review(60.0) is None
    found.connected(3, 100, False, 60.0)
    assert found.review(61.0).members == {1, 3}
    replaced = sync_set((1, 2), least_copies=2, first_s=0.0)
    replaced.connected(3, 100, False, 60.0)
    assert replaced.review(61.0).members == {1, 3}


def test_a_member_that_became_a_learner_leaves():
    found = sync_set((1, 2))
    found.connected(2, 100, True, 0.0)
    assert found.review(0.0).members == {1}


# --- topics and groups ------------------------------------------------------------------------------------------------


def test_a_slave_with_older_tables_does_not_enter():
    found = sync_set()
    found.tables_saved(3, 0.0)
    found.connected(2, 100, False, 0.0, tables=2)
    assert found.review(0.0) is None
    found.tables_copied(2, 3, 0.1)
    assert found.review(0.1) == Alter(1, 5, frozenset({1, 2}))


def test_a_save_is_everywhere_when_each_member_that_tells_has_it():
    found = sync_set((1, 2, 3))
    found.connected(2, 100, False, 0.0, tables=0)
    found.tables_saved(1, 0.0)
    assert found.tables_everywhere == -1  # 3 has not connected yet
    found.connected(3, 100, False, 0.0)  # a slave of RocketMQ
    assert found.tables_everywhere == 0
    found.tables_copied(2, 1, 0.0)
    found.tables_copied(3, 0, 0.0)
    assert found.tables_everywhere == 1
    found.connected(4, 100, False, 0.0, tables=1)
    found.review(0.0)
    found.tables_saved(2, 0.0)
    found.tables_copied(2, 2, 0.0)
    assert found.tables_everywhere == 1  # 4 may be in the set already


def test_a_member_that_returns_as_a_learner_has_no_tables_until_it_has_left():
    found = sync_set((1, 2))
    found.connected(2, 100, True, 0.0)
    assert found.tables_everywhere == -1
    assert found.review(0.0) == Alter(1, 5, frozenset({1}))
    found.accepted({1}, 6)
    assert found.tables_everywhere == ANY_TABLES


def test_a_member_that_does_not_copy_the_tables_leaves():
    found = sync_set((1, 2), max_late_s=15.0)
    found.connected(2, 100, False, 0.0, tables=1)
    found.tables_saved(2, 1.0)
    found.tables_saved(3, 10.0)
    found.reported(2, 100, 15.9)
    assert found.review(16.0) is None
    assert found.review(16.1) == Alter(1, 5, frozenset({1}))


def test_without_all_in_sync_no_slave_has_to_have_the_tables():
    found = sync_set((1, 2), all_in_sync=False)
    found.tables_saved(1, 0.0)
    assert found.tables_everywhere == ANY_TABLES


def test_a_slave_that_the_engine_refuses_keeps_no_other_out():
    found = sync_set(retry_s=1.0)
    asked, now = [], 0.0
    for broker_id in (7, 8, 9):
        found.connected(broker_id, 100, False, now)
    while found.members != {1, 9}:
        now += 1.0
        assert now < 10
        change = found.review(now)
        asked.append(sorted(change.members))
        if {7, 8} & change.members:
            found.refused(change.number, now)
        else:
            found.accepted(change.members, change.set_epoch + 1)
    assert asked[0] == [1, 7, 8, 9] and found.confirmed == 100
    assert sorted(found.review(now + 1).members) == [1, 7, 9]


def test_a_set_of_the_engine_without_the_master_is_mended():
    found = sync_set((2,))
    assert joined(found).members == {1, 2}
