"""What `gantrymq cluster status` makes of the answers of masters and slaves."""

import attrs
import pytest

from gantrymq.client.admin import ConnectedSlave, ElectionState, HaStatus, LostSlave, MasterConnection
from gantrymq_admin.copies import Answer, healthy
from gantrymq_admin.copies import copies_of as copies_at

NOW_MS = 1_800_000_000_000


def copies_of(answers, now_ms=NOW_MS):
    return copies_at(answers, now_ms)


def connection(addr, ack=1000, end=1000, in_sync=True, late_ms=None):
    """A slave as a master tells it."""
    return ConnectedSlave(
        address=addr,
        acked_offset=ack,
        lag_bytes=end - ack,
        in_sync=in_sync,
        next_offset=ack,
        bytes_per_s=0,
        late_ms=late_ms,
    )


def ha(slaves=(), lost=(), wanted=None, connection=None):
    return HaStatus(
        master=connection is None,
        max_offset=0 if connection else 1000,
        in_sync_slaves=sum(each.in_sync for each in slaves),
        slaves=tuple(slaves),
        lost_slaves=tuple(lost),
        wanted_copies=wanted,
        connection=connection,
    )


def master(*connections, lost=(), wanted=None):
    return Answer(broker_id=0, address="m:1", end=1000, ha=ha(connections, lost, wanted))


def slave(address="a:1", broker_id=1, end=1000, local=None, problem=None, acting=False, waits="", unset="", **answer):
    client = MasterConnection(
        master_address="m:2",
        max_offset=end,
        bytes_per_s=0,
        read_at_ms=0,
        wrote_at_ms=0,
        local_address=local,
        problem=problem,
        acting=acting,
        acting_problem=waits,
        acting_settings=unset,
    )
    return Answer(broker_id=broker_id, address=address, end=end, ha=ha(connection=client), **answer)


def lost(host, problem="it reported nothing", reported=True):
    return LostSlave(host=host, at_ms=NOW_MS, problem=problem, reported=reported)


def states(*answers):
    """Address to what is said of a slave: whether it follows, and why not."""
    return {each.address: (each.following, each.problem) for each in copies_of(answers) if each.role == "slave"}


def test_a_slave_of_ours_is_found_by_the_address_of_its_connection():
    both = connection("h:50", ack=900, late_ms=2500), connection("h:51", late_ms=0)
    one, two = slave("h:1", 1, local="h:51", problem=""), slave("h:2", 2, local="h:50", problem="")
    of_master, first, second = copies_of([master(*both, wanted=2), one, two])
    assert (of_master.role, of_master.end, of_master.problem) == ("master", 1000, None)
    assert (of_master.in_sync_copies, of_master.wanted_copies) == (3, 2)
    assert (first.id, first.lag_bytes, first.lag_s, first.in_sync, first.following) == (1, 0, 0.0, True, True)
    assert (second.id, second.lag_bytes, second.lag_s, second.in_sync, second.following) == (2, 100, 2.5, True, True)


def test_a_slave_of_rocketmq_is_found_by_its_host():
    shown = copies_of([master(connection("a:50", ack=900)), slave("a:1", end=900)])[1]
    assert (shown.lag_bytes, shown.lag_s, shown.following, shown.problem) == (100, None, True, None)
    two = slave("a:1", 1, end=900), slave("a:2", 2, end=1000)
    rows = copies_of([master(connection("a:50", ack=900), connection("a:51")), *two])
    assert [(each.id, each.lag_bytes, each.following) for each in rows[1:3]] == [(1, 100, None), (2, 0, None)]
    assert [each.id for each in rows[3:]] == [None, None]
    assert rows[1].problem == "unknown which of the connections of the master is its"


def test_brokers_before_5_tell_only_ends():
    old = Answer(broker_id=0, address="m:1", end=1000), Answer(broker_id=1, address="a:1", end=1400)
    of_master, shown = copies_of(old)
    assert (of_master.in_sync_copies, of_master.wanted_copies, of_master.problem) == (None, None, None)
    assert (shown.lag_bytes, shown.lag_s, shown.in_sync, shown.following) == (0, 0.0, None, None)
    assert shown.problem == "neither it nor its master tells whether it follows"


def test_why_a_slave_does_not_follow():
    gone = [lost("a", reported=False)]
    ours = slave("a:1", local="", problem="master m:2: reset, before it sent anything; the master's log has the reason")
    following, problem = states(master(lost=gone), ours)["a:1"]
    assert following is False
    assert problem.startswith("master m:2: reset, before it sent anything; the master lost the connection at 2027-01-1")
    assert problem.endswith(": it reported nothing")
    assert states(master(), ours)["a:1"] == (False, ours.why_not)
    assert states(master(), slave("a:1"))["a:1"] == (
        False,
        "the master has no connection of it since the master's start",
    )
    assert states(master(lost=gone), slave("a:1"))["a:1"][1].endswith("it reported nothing")
    silent = Answer(broker_id=1, address="a:1", problem="no answer")
    assert states(master(lost=gone), silent)["a:1"][1].startswith("no answer; the master lost the connection at ")
    following, problem = states(master(connection("a:50")), silent)["a:1"]
    assert following is None and problem.startswith("no answer; the master still has a connection of it")


def test_a_slave_that_acts_for_its_missing_master():
    _, row = copies_of([slave(acting=True, problem="its master does not answer")])
    assert (row.role, row.following, row.lag_bytes) == ("acting", None, None)
    assert row.problem == "acts for its missing master: delivers what waits, through other broker names"
    _, row = copies_of([slave(acting=True, waits="no other broker name")])
    assert row.problem == "acts for its missing master, but messages wait: no other broker name"
    _, row = copies_of([slave(acting=True, waits="it is full", unset="n has s=false")])
    assert row.problem.endswith("messages wait: it is full; settings for acting masters: n has s=false")
    _, row = copies_of([master(connection("a:50")), slave(local="a:50", problem="", unset="n has s=false")])
    assert (row.following, row.problem) == (True, "settings for acting masters: n has s=false")


def test_the_lag_of_a_slave_that_does_not_follow():
    for end, lag in ((400, 600), (1000, 0), (1400, None)):
        of_it = copies_of([master(), slave("a:1", end=end, local="", problem="it differs")])[1]
        assert (of_it.lag_bytes, of_it.lag_s, of_it.following) == (lag, None, False)


def test_a_slave_that_is_too_far_behind():
    late = connection("a:50", ack=100, in_sync=False, late_ms=20_400)
    ours = slave("a:1", end=100, local="a:50", problem="")
    of_master, shown = copies_of([master(late, wanted=2), ours])
    assert of_master.problem == "copies in sync: 1, fewer than the 2 that its settings ask for"
    assert (shown.in_sync, shown.following) == (False, True)
    assert shown.problem == "not in sync: it is 900 bytes behind, and did not have everything for 20 s"
    again = connection("a:50", ack=1000, in_sync=False, late_ms=0)
    shown = copies_of([master(again), slave("a:1", end=1000, local="a:50", problem="")])[1]
    assert (shown.in_sync, shown.lag_bytes) == (False, 0)
    assert shown.problem is not None and shown.problem.startswith("not in sync yet: it has everything")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([slave("a:1")], "no master is registered"),
        ([Answer(broker_id=0, address="m:1", problem="refused"), slave("a:1")], None),
        ([slave("a:1", local="", problem="no name server knows it")], "no name server knows it"),
    ],
)
def test_without_a_master(answers, said):
    of_master, shown = copies_of(answers)
    assert (shown.problem, shown.lag_bytes) == (said, None)
    assert (of_master.role, of_master.id, of_master.lacking) == ("master", 0, True)
    assert not healthy([of_master, shown])


def test_a_master_that_is_not_registered_has_a_row():
    shown, _ = copies_of([slave("a:1")])
    assert (shown.role, shown.id, shown.address, shown.end) == ("master", 0, "", None)
    assert shown.problem.startswith("no master is registered with the name servers")


def test_a_slave_that_is_not_registered():
    shown = copies_of([master(connection("b:50", ack=400))])[1]
    assert (shown.id, shown.address, shown.end, shown.lag_bytes, shown.following) == (None, "b:50", 400, 600, True)
    assert "no slave that is registered" in shown.problem


def test_a_slave_that_was_lost_is_shown_for_a_day():
    probe = lost("c", reported=False)
    _, shown = copies_of([master(lost=[lost("b"), probe])], NOW_MS + 23 * 3_600_000)
    assert (shown.role, shown.id, shown.address, shown.following) == ("slave", None, "b", False)
    assert shown.problem.startswith("not registered with the name servers; the master lost the connection at ")
    assert shown.problem.endswith("; 'gantrymq cluster forget' removes it if it is gone for good")
    assert len(copies_of([master(lost=[lost("b")])], NOW_MS + 25 * 3_600_000)) == 1
    assert len(copies_of([master(connection("b:60"), lost=[lost("b")])])) == 2
    back = master(connection("b:60"), lost=[lost("b")]), slave("c:1", local="b:60", problem="")
    assert len(copies_of(back)) == 2  # a machine with several addresses


@pytest.mark.parametrize(
    ("answers", "well"),
    [
        ([master(connection("a:50"), wanted=2), slave("a:1", local="a:50", problem="")], True),
        ([master()], True),
        ([Answer(broker_id=0, address="m:1", end=9), Answer(broker_id=1, address="a:1", end=9)], True),  # before 5.0
        ([master(connection("a:50")), slave("a:1", local="", problem="it differs")], False),
        ([master(connection("a:50", in_sync=False)), slave("a:1", local="a:50", problem="")], False),
        ([master(wanted=2)], False),
        ([master(lost=[lost("b")])], False),
        ([Answer(broker_id=0, address="m:1", problem="refused")], False),
        ([slave("a:1", local="a:50", problem="")], False),  # without a master
    ],
)
def test_a_set_is_healthy_if_nothing_known_is_wrong(answers, well):
    assert healthy(copies_of(answers)) is well


def state(own_id, **fields):
    """What a broker tells of the election of broker id 1 as the master of epoch 3."""
    known = {
        "engine": "etcd",
        "own_id": own_id,
        "epoch": 3,
        "master": 1,
        "master_address": "m:1",
        "known_since_ms": 0,
        "in_sync": (1, 2),
        "in_sync_epoch": 5,
        "confirmed": 1000,
        "problem": "" if own_id == 1 else "this broker is a slave",
        "apart": "",
        "unelectable": "",
        "fencing": "strict",
        "least_copies": 2,
        "lease_ms": 9000,
        "learner": False,
    }
    return ElectionState(**{**known, **fields})


def elected(answer, own_id, **fields):
    return attrs.evolve(answer, ha=attrs.evolve(answer.ha, election=state(own_id, **fields)))


def of_id(broker_id, **fields):
    return attrs.evolve(connection(f"a:{40000 + broker_id}", **fields), broker_id=broker_id)


def test_slaves_of_one_host_are_found_by_their_ids_in_an_elected_set():
    leader = elected(master(of_id(3, in_sync=False, ack=400), of_id(2)), 1)
    slaves = [elected(slave("a:1", 2, problem=""), 2), elected(slave("a:2", 3, end=400, problem=""), 3)]
    first, two, three = copies_of([leader, *slaves])
    assert (first.epoch, first.elected_id, first.in_sync_set, first.in_sync_copies) == (3, 1, (1, 2), 2)
    assert (first.wanted_copies, first.problem, first.lacking) == (2, None, False)
    assert (two.in_sync, two.lag_bytes, two.following, two.epoch) == (True, 0, True, 3)
    assert (three.in_sync, three.lag_bytes, three.following) == (False, 600, True)
    assert not healthy([first, two, three])


def test_an_elected_master_that_refuses_messages_says_why():
    (first,) = copies_of([elected(master(), 1, problem="this master is fenced: etcd does not answer")])
    assert (first.problem, first.lacking) == ("this master is fenced: etcd does not answer", True)
    first, _ = copies_of([elected(slave(problem=""), 2, master=None, problem="none of the set is alive")])
    assert first.problem.endswith("to this broker name: none of the set is alive")


def test_a_learner_lacks_nothing_because_it_is_never_in_sync():
    learner = attrs.evolve(of_id(4, in_sync=False), learner=True)
    rows = copies_of([elected(master(learner), 1), elected(slave("a:1", 4, problem=""), 4, learner=True)])
    assert (rows[1].in_sync, rows[1].following, rows[1].problem) == (None, True, "a learner: never in sync")
    assert healthy(rows)


def test_a_slave_that_an_elected_master_misses_is_shown_for_a_day():
    leader = elected(master(of_id(2)), 1, away_since_ms={3: NOW_MS, 2: NOW_MS, 4: NOW_MS - 25 * 3600 * 1000})
    rows = copies_of([leader, elected(slave("a:1", 2, problem=""), 2)])
    assert [each.address for each in rows] == ["m:1", "a:1", "broker id 3"]
    assert rows[2].lacking and "the master has no connection of it since" in rows[2].problem


def test_a_silent_slave_is_no_copy_that_follows_and_has_one_row():
    frozen = Answer(broker_id=3, address="a:2", problem="no answer within 5 s")
    two = elected(slave("a:1", 2, problem=""), 2)
    *_, shown = rows = copies_of([elected(master(of_id(2), of_id(3)), 1), two, frozen])
    assert (len(rows), shown.address, shown.following, shown.lacking) == (3, "a:2", None, True)
    assert shown.problem.startswith("no answer within 5 s; the master still has a connection of it, so that sends may")
    assert not healthy(rows)
    gone = elected(master(of_id(2)), 1, away_since_ms={3: NOW_MS})
    *_, shown = rows = copies_of([gone, two, frozen])
    assert (len(rows), shown.address, shown.following) == (3, "a:2", False)
    assert shown.problem.startswith("no answer within 5 s; the master has no connection of it since 2027-01-1")


@pytest.mark.parametrize("own_id", [0, 3])
def test_a_broker_that_takes_no_part_is_not_taken_for_the_one_whose_id_it_has(own_id):
    apart = "broker id 3 is alive at a:2: this store is a copy of its"
    copied = elected(slave("a:3", 3, problem=""), own_id, apart=apart, master=None)
    by_address = {each.address: each for each in copies_of([elected(master(of_id(3)), 1), copied])}
    assert (by_address["a:3"].following, by_address["a:3"].lacking) == (False, True)
    assert by_address["a:3"].problem == f"it takes no part in the election: {apart}"
    assert by_address["a:40003"].following  # the connection of the real one


def test_no_slave_follows_without_an_elected_master():
    why = "there is no master, and no member of the in-sync set was elected yet"
    slaves = [elected(slave(f"a:{each}", each, problem=""), each, master=None, problem=why) for each in (1, 2, 3)]
    of_master, *rows = copies_of(slaves)
    assert [(each.following, each.problem) for each in rows] == 3 * [(False, why)]
    assert of_master.problem.endswith(why)
