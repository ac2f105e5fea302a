"""The role of a broker: standings and times in, decisions out."""

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq.errors import ConfigError
from gantrymq_replication.election.machine import (
    NO_MASTER,
    NOT_CONFIRMED,
    Alter,
    BecomeMaster,
    Elect,
    Fence,
    Fencing,
    Follow,
    Machine,
    Renew,
    RoleSettings,
    StandDown,
    Standing,
    Unfence,
)
from gantrymq_replication.election.sync_set import SyncSetSettings

OWN = 1


def machine(*, epoch=0, least_copies=1, **rules):
    return Machine(
        RoleSettings(own_id=OWN, lease_s=9.0, margin_s=2.0, renew_s=3.0, **rules),
        SyncSetSettings(own_id=OWN, least_copies=least_copies),
        0.0,
        epoch,
    )


def standing(master, epoch, members=(1,), set_epoch=1, address="m:1"):
    return Standing(master, epoch, frozenset(members), set_epoch, address)


def master(epoch=3, asked_at=0.0, members=(1,), **more):
    """A machine that serves as the master; its log ends at 100."""
    found = machine(**more)
    found.tick(0.0)
    found.learned(standing(OWN, epoch, members), asked_at, asked_at)
    found.ready(epoch, confirmed=100, end=100, now=asked_at)
    assert found.is_master
    return found


def test_a_broker_asks_and_then_tries_to_be_elected():
    found = machine()
    assert found.tick(0.0) == [Renew()]
    assert found.tick(0.1) == []
    assert found.learned(standing(None, 0, ()), 0.0, 0.2) == [Elect()]
    assert found.learned(standing(OWN, 1), 0.2, 0.3) == [BecomeMaster(1)]
    assert not found.may_accept(0.3) and "becoming the master of epoch 1" in found.problem(0.3)
    assert found.ready(1, confirmed=0, end=0, now=0.4) == [Unfence()]
    assert found.may_accept(0.4) and found.problem(0.4) == ""


def test_a_failed_election_is_tried_again():
    found = machine()
    found.tick(0.0)
    found.learned(standing(None, 4, (2,)), 0.0, 0.0)
    assert found.failed("broker id 1 is not in the set", 0.5) == []
    assert found.problem(0.5) == "broker id 1 is not in the set"
    assert found.tick(1.4) == []
    assert Elect() in found.tick(1.5)


def test_a_slave_follows_each_new_master():
    found = machine()
    found.tick(0.0)
    assert found.learned(standing(2, 1, address="b:1"), 0.0, 0.0) == [Follow(2, 1, "b:1", "")]
    assert found.learned(standing(2, 1, address="b:1"), 3.0, 3.0) == []
    assert found.learned(standing(2, 1, address="b:2"), 6.0, 6.0) == [Follow(2, 1, "b:2", "")]
    assert found.learned(standing(3, 2), None, 6.1) == [Follow(3, 2, "m:1", "")]
    assert found.learned(standing(2, 1), 6.0, 6.2) == [], "an older epoch"
    assert "the master of epoch 2 is broker id 3" in found.problem(7.0)


def test_a_deposed_master_is_fenced_before_it_follows():
    found = master(3)
    assert found.learned(standing(2, 4), None, 1.0) == [Fence("epoch 4 has begun"), Follow(2, 4, "m:1", "")]
    assert not found.leased(1.0) and found.set is None


def test_the_lease_counts_from_before_the_request():
    found = master(asked_at=0.0)
    assert found.leased(6.99) and not found.leased(7.0)
    found.tick(3.0)
    found.learned(standing(OWN, 3), 3.0, 6.0)
    assert found.leased(9.99) and not found.leased(10.0)
    assert found.tick(10.0)[0] == Fence(found._problem)
    assert found.learned(standing(OWN, 3), 10.0, 10.5) == [Unfence()]


def test_an_older_answer_does_not_shorten_a_lease_and_a_notification_does_not_extend_it():
    found = master(asked_at=3.0)
    found.learned(standing(OWN, 3), 1.0, 4.0)
    assert found.leased(9.9)
    found.learned(standing(OWN, 3), None, 5.0)
    assert not found.leased(10.0)


def test_a_suspended_master_acknowledges_nothing():
    """No decision was made while it was suspended; the clock decides at the acknowledgement."""
    found = master(asked_at=0.0)
    found.appended(200)
    assert found.may_acknowledge(200, 1.0)
    assert not found.may_acknowledge(200, 20.0)


def test_rocketmqs_fencing_has_no_deadline():
    found = master(asked_at=0.0, fencing=Fencing.ROCKETMQ)
    assert found.may_accept(1000.0)
    found.lost("the connection broke", 1000.0)
    assert found.may_accept(1000.0)
    found.learned(standing(2, 4), None, 1001.0)
    assert not found.may_accept(1001.0)


def test_the_fail_safe_goes_on_while_every_member_follows():
    found = master(asked_at=0.0, fencing=Fencing.FAILSAFE, members=(1, 2), fences_on_loss=True)
    assert found.leased(6.9) and not found.leased(7.0), "nobody follows"
    found.connected(2, 100, False, 1.0)
    found.lost("it broke", 2.0)
    assert found.leased(2.0) and found.leased(1000.0)
    assert Fence("it broke") in found.gone(2, 1000.0)
    alone = master(asked_at=0.0, fencing=Fencing.FAILSAFE)
    assert not alone.leased(7.0)
    with pytest.raises(ConfigError, match="needs allAckInSyncStateSet"):
        Machine(RoleSettings(own_id=1, fencing=Fencing.FAILSAFE), SyncSetSettings(own_id=1, all_in_sync=False), 0.0)


def test_a_broken_connection_fences_until_a_later_answer():
    found = master(asked_at=0.0, fences_on_loss=True)
    assert found.lost("the connection to the controller broke", 2.0)[0] == Fence(
        "the connection to the controller broke"
    )
    assert found.learned(standing(OWN, 3), 1.9, 2.1) == [Renew()], "it was asked before"
    assert not found.leased(2.1)
    assert found.learned(standing(OWN, 3), 2.1, 2.2) == [Unfence()]


def test_a_broken_connection_means_nothing_to_an_engine_with_leases():
    found = master(asked_at=0.0)
    assert found.lost("it broke", 2.0) == [Renew()]
    assert found.leased(2.0)


def test_an_epoch_is_not_taken_up_again():
    found = master(3)
    assert found.learned(standing(None, 3), None, 1.0)[:2] == [
        Fence("this broker is not the master any more"),
        StandDown("this broker is not the master any more"),
    ]
    assert found.learned(standing(OWN, 3), 0.9, 1.1) == []
    assert not found.is_master
    assert BecomeMaster(4) in found.learned(standing(OWN, 4), 2.0, 2.1)


def test_a_restarted_master_goes_on_with_its_epoch():
    found = machine(epoch=3)
    found.tick(0.0)
    assert found.learned(standing(OWN, 3), 0.0, 0.0) == [BecomeMaster(3)]


def test_an_engine_without_the_epoch_of_the_log_is_refused_in_a_sentence():
    found = machine(epoch=7)
    found.tick(0.0)
    assert found.learned(standing(OWN, 1), 0.0, 0.0) == []
    assert "it knows epochs up to 1, and this broker knows epoch 7" in found.problem(0.0)
    assert Elect() not in found.tick(5.0)


def test_a_broker_that_must_not_be_the_master():
    found = machine()
    found.unelectable = "its list of epochs is damaged"
    found.tick(0.0)
    assert found.learned(standing(None, 2, (1,)), 0.0, 0.0) == []
    assert found.learned(standing(OWN, 3), 0.1, 0.1) == [StandDown("its list of epochs is damaged")]
    assert not found.may_accept(0.1) and found.problem(0.1) == "its list of epochs is damaged"


def test_ready_for_an_older_epoch_is_ignored():
    found = machine()
    found.tick(0.0)
    found.learned(standing(OWN, 3), 0.0, 0.0)
    found.learned(standing(2, 4), None, 0.1)
    assert found.ready(3, confirmed=0, end=0, now=0.2) == []
    assert not found.is_master


def test_a_master_that_is_elected_again_begins_a_new_epoch():
    found = master(3)
    assert found.learned(standing(OWN, 5), 1.0, 1.0) == [Fence("epoch 5 has begun"), BecomeMaster(5)]
    assert found.ready(5, confirmed=100, end=100, now=1.1) == [Unfence()]


def test_the_newest_set_is_used():
    found = machine()
    found.tick(0.0)
    found.learned(standing(OWN, 3, (1, 2), 8), 0.0, 0.0)
    found.learned(standing(OWN, 3, (1,), 7), None, 0.1)
    found.ready(3, confirmed=0, end=0, now=0.2)
    assert found.set.members == {1, 2} and found.set.set_epoch == 8


def test_changes_of_the_set_are_asked_for_and_read():
    found = master(3)
    [change] = found.connected(2, 100, False, 0.1)
    assert change == Alter(1, 1, frozenset({1, 2}))
    found.appended(200)
    assert not found.may_acknowledge(200, 0.2)
    assert found.not_altered(3, change.number, False, 0.2) == [Renew()], "the set is read at once"
    found.learned(standing(OWN, 3, (1, 2), 2), 0.2, 0.3)
    assert found.set.members == {1, 2} and found.set.counted == {1, 2}
    found.reported(2, 200, 0.4)
    assert found.may_acknowledge(200, 0.4)
    found.altered(2, frozenset({1}), 9, 0.5)
    assert found.set.members == {1, 2}, "the answer is of an older epoch"


def test_too_few_members_are_told_in_a_sentence():
    found = master(3, least_copies=2)
    assert not found.may_accept(0.0)
    assert found.problem(0.0) == "in-sync replicas not enough: 1 in sync, minInSyncReplicas=2"


def test_a_hint_makes_the_standing_read_again():
    found = master(3)
    assert found.hinted(1.0) == [Renew()]
    assert found.hinted(1.1) == [], "it is being read"
    assert found.learned(standing(OWN, 3), 1.0, 1.2) == [Renew()], "it was read before the last hint"
    assert found.learned(standing(OWN, 3), 1.2, 1.3) == []


def test_a_reason_that_is_over_is_not_told_again():
    found = master(asked_at=1.0)
    found.tick(4.0)
    found.failed("etcd does not answer", 5.0)
    found.tick(6.0)
    found.learned(standing(OWN, 3), 6.0, 6.1)
    assert found.tick(20.0)[0] == Fence(NOT_CONFIRMED)  # it was suspended
    assert NOT_CONFIRMED in found.problem(20.0)

    found = machine()
    found.tick(0.0)
    assert found.learned(standing(None, 1, (1, 2)), 0.0, 0.1) == [Elect()]
    found.failed("etcd does not answer", 1.0)
    assert found.problem(1.0) == "etcd does not answer"
    found.tick(3.0)
    found.learned(standing(None, 1, (1, 2)), 3.0, 3.1)
    found.learned(standing(None, 1, (1, 2)), 4.0, 4.1)
    assert found.problem(4.1) == NO_MASTER


@pytest.mark.parametrize("fencing", [Fencing.STRICT, Fencing.ROCKETMQ])
def test_a_master_says_that_its_engine_has_lost_its_data(fencing):
    found = master(5, fencing=fencing)
    found.failed("etcd does not answer: nothing listens there", 1.0)
    found.learned(standing(None, 0, ()), 0.5, 1.1)
    assert found.data_lost.startswith("the engine has lost its data: it knows epochs up to 0, and this broker knows")
    assert "'gantrymq cluster explain' names the command that ends that" in found.data_lost
    assert found.leased(1.1) == (fencing is Fencing.ROCKETMQ), "the promise to a master is void with the data"
    if fencing is Fencing.STRICT:
        assert found.problem(1.1) == f"this master is fenced: {found.data_lost}"
    found.failed("etcd does not answer: nothing listens there", 1.2)
    assert found.data_lost, "it is known until the engine says another thing"
    decisions = found.learned(standing(None, 5, (1,)), 1.3, 1.4)  # a person has decided which broker is elected
    assert not found.data_lost and any(isinstance(each, StandDown) for each in decisions)
    assert BecomeMaster(6) in found.learned(standing(OWN, 6), 1.5, 1.6)


def test_a_slave_says_that_its_engine_has_lost_its_data():
    found = machine()
    found.tick(0.0)
    found.learned(standing(2, 5), 0.0, 0.0)
    found.learned(standing(None, 0, ()), None, 1.0)
    found.learned(standing(None, 4, ()), -0.1, 1.1)
    assert not found.data_lost, "a notification, and the answer to an older question, may be old"
    found.learned(standing(None, 0, ()), 1.2, 1.3)
    assert found.problem(1.3) == found.data_lost != ""
    assert Elect() not in found.tick(10.0)
    found.learned(standing(2, 5), 10.0, 10.1)
    assert not found.data_lost and "this broker is a slave" in found.problem(10.1)


def test_a_named_broker_that_must_not_be_the_master_stands_down_once():
    found = machine()
    found.unelectable = "its log is not compared yet"
    found.tick(0.0)
    assert found.learned(standing(OWN, 3), 0.0, 0.0) == [StandDown("its log is not compared yet")]
    assert found.learned(standing(OWN, 3), 1.0, 1.0) == []
    found.unelectable = ""
    assert found.learned(standing(OWN, 3), 2.0, 2.0) == [BecomeMaster(3)]
