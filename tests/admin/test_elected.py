"""What `gantrymq cluster explain` says of a set with an elected master, and what is asked for it."""

import asyncio

import attrs
import click
import pytest
from elected_sets import connected, master, of, slave

from gantrymq.client.admin import BrokerSet, SetMember
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq_admin.commands import cluster_masters
from gantrymq_admin.commands.cluster_masters import _change
from gantrymq_admin.copies import Answer, copies_of
from gantrymq_admin.elected import ChangedMaster, ElectedBroker, _merged, _named, forget_broker
from gantrymq_admin.elected_sentences import accepting, explained
from gantrymq_admin.master_changes import candidates, change_to, elect_member, member_of


def said(*brokers, **fields):
    return "\n".join(explained(of(*brokers, **fields)))


def test_a_healthy_set_of_two_by_etcd():
    lines = explained(of(master(connected(2)), slave(2)))
    assert lines == [
        "The master of broker-a is elected by etcd, with fencing=strict and minInSyncReplicas=1.",
        lines[1],
        "The in-sync set (number 5) is 1, 2.",
        "Broker id 2 (a:2) is in the set, and it has everything.",
        "Every member of the set has the whole log, up to offset 1000.",
        "If broker id 1 failed, broker id 2 would take over within 9 s.",
        "If broker id 2 failed, messages would wait until it has left the set, at once if its connection breaks and 20 "
        "s at most otherwise, and then be acknowledged with 1 of 2 copies.",
        "If etcd failed, the master would refuse messages after 9 s at most, until it answers again.",
        "Messages are accepted.",
    ]
    assert lines[1].startswith("Broker id 1 (a:1) is the master of epoch 3, at least since 20")
    assert accepting(of(master(connected(2)), slave(2)))


def test_with_a_controller_and_too_few_copies_left():
    leader = master(connected(2, lag=30), least_copies=2, confirmed=970, engine="controller")
    text = said(leader, slave(2), controllers=("c:1",), leader="c:1")
    assert "elected by RocketMQ's controller at c:1" in text
    assert "it is 30 bytes behind, and did not have everything for 1.5 s" in text
    assert "up to offset 970; 30 bytes more are not confirmed. Consumers do not see them, and this" in text
    assert "broker id 2 would take over at once if its connection to the controller breaks, and within 9 s" in text
    assert "otherwise, but messages are refused until another one is in sync." in text
    assert "then be refused, because minInSyncReplicas=2 asks for more copies" in text
    assert "If the controllers failed, the master would refuse messages at once" in text
    assert "which may lack" not in text


def test_a_member_that_does_not_answer_is_not_said_to_have_everything():
    text = said(master(connected(2)), ElectedBroker(id=2, address="a:2", silent="no answer within 5 s"))
    assert "(a:2) is in the set, but does not answer, and the master still has a connection of it: no answer" in text
    assert "would take over" not in text


def test_nothing_is_predicted_while_no_controller_leads():
    leader = master(connected(2), engine="controller")
    text = said(leader, slave(2), controllers=("c:1",), engine_problem="no controller leads: c:1 knows no leader")
    assert "If broker id 1 failed, no other broker would take over before a controller leads; until then" in text
    assert "at once" not in text and "If broker id 2 failed" not in text and "If the controllers failed" not in text


@pytest.mark.parametrize(
    ("broker", "why"),
    [
        (ElectedBroker(id=3, address="a:3", silent="nobody listens"), "it does not answer: nobody listens"),
        (
            ElectedBroker(id=3, address="a:3", registered=False, alive=False),
            "it is known to the controller only; 'gantrymq",
        ),
        (slave(3, learner=True), "it is a learner (asyncLearner=true), and never will be"),
        (slave(3, apart="the identity is another's"), "it takes no part in the election: the identity is another's"),
        (slave(3, problem="the logs differ"), "it does not follow: the logs differ"),
        (slave(3, unelectable="its epochs are damaged"), "its epochs are damaged"),
        (slave(3), "the master has no connection of it yet"),
    ],
)
def test_why_a_broker_is_not_in_the_set(broker, why):
    assert f"Broker id 3 (a:3) is not in the set: {why}" in said(master(connected(2)), slave(2), broker)


def test_why_a_connected_broker_is_not_in_the_set():
    brokers = (master(connected(2), connected(3, lag=7), connected(4, learner=True)), slave(2), slave(3))
    text = said(*brokers, slave(4, tables="code 1"))
    assert "(a:3) is not in the set: it is 7 bytes behind, and did not have everything for 1.5 s, and enters" in text
    assert "(a:4) is not in the set: it has not copied topics, groups and offsets yet: code 1." in text


def test_a_lonely_master_and_a_member_that_is_gone():
    text = said(master(problem="in-sync replicas not enough: 1 in sync, minInSyncReplicas=2", least_copies=2))
    assert "Broker id 2 is in the set, but is not registered with the name servers." in text
    assert "If broker id 1 failed, no other broker could take over" in text and "promote --unclean" in text
    assert "Messages are refused now: in-sync replicas not enough" in text
    assert "That ends when one more of them is in sync: 2." in text


def test_a_least_number_of_copies_that_can_never_be_met():
    few = {"problem": "in-sync replicas not enough: 2 in sync, minInSyncReplicas=3", "least_copies": 3}
    text = said(master(connected(2), **few), slave(2), slave(4, learner=True))
    assert text.endswith(
        "Messages are refused now: in-sync replicas not enough: 2 in sync, minInSyncReplicas=3.\n"
        "That cannot end by itself: minInSyncReplicas=3 can never be met by the brokers that are known, 1 and 2. Start "
        "another one, or set it to 2 or less on each of them and restart them."
    )
    text = said(master(in_sync=(1,), **few))
    assert "by the brokers that are known, 1. Start 2 more, or set it to 1 or less" in text
    for others in ((slave(2), slave(3)), (slave(2), ElectedBroker(id=3, address="a:3", silent="nobody listens"))):
        assert "never be met" not in said(master(connected(2), **few), *others)
    text = said(master(connected(2), away_since_ms={3: 1_800_000_000_000}, **few), slave(2))
    assert "never be met" not in text and "That ends when one more of them is in sync" in text


def test_a_broker_that_is_away_is_named():
    text = said(master(connected(2), away_since_ms={3: 1_800_000_000_000, 2: 1_800_000_000_000}), slave(2))
    assert "Broker id 3 is away: the master has had no connection of it since 2027-01-15" in text
    assert "'gantrymq cluster forget broker-a 3' removes it if it is gone for good." in text
    assert "Broker id 2 is away" not in text


def test_a_fenced_master():
    text = said(master(connected(2), problem="this master is fenced: etcd does not answer"), slave(2))
    assert "Messages are refused now: this master is fenced: etcd does not answer." in text
    assert "That ends when etcd confirms that broker id 1 still is the master, or elects another." in text
    assert "failed" not in text  # whether a slave would take over is known by etcd only


LOST = "the engine has lost its data: it knows epochs up to 0, and this broker knows epoch 3"


def test_members_without_a_connection_may_take_over_and_may_have_more():
    """After a power cut they may refuse to follow a master that lacks acknowledged messages."""
    few = {"problem": FEW.format(1), "least_copies": 2, "in_sync": (1, 2, 3), "confirmed": 700}
    text = said(master(**few), slave(2, problem="the master lacks"), slave(3, unelectable="damaged"))
    assert "the set has confirmed the log up to offset 700; the 300 bytes after that are not shown to cons" in text
    assert "How much broker id 2 and 3 has is not known without a connection." in text and "Every member" not in text
    assert "If broker id 1 failed, broker id 2 would take over within 9 s." in text and "nobody" not in text
    assert "If broker id 2 failed" not in text


def test_an_engine_without_its_data_is_named_with_what_ends_it():
    fenced = master(connected(2), data_lost=LOST, problem=f"this master is fenced: {LOST}")
    text = said(fenced, slave(2, data_lost=LOST))
    assert f"No broker of broker-a can be elected now: {LOST}." in text
    assert "Messages are refused now. Those that are stored are safe." in text
    assert "That ends with 'gantrymq cluster promote broker-a 1 --unclean', as broker id 1 has the longest log" in text
    assert "would take over" not in text and "confirms" not in text
    text = said(slave(2, data_lost=LOST), slave(3, data_lost=LOST, unelectable="damaged"))  # the master was stopped
    assert "promote broker-a 2 --unclean" in text and "within seconds" not in text
    assert "Messages are accepted" in said(master(connected(2), data_lost=LOST, fencing="rocketmq"), slave(2))
    for each in (fenced, master(data_lost=LOST, fencing="rocketmq")):
        row = copies_of([Answer(broker_id=0, address="a:1", ha=attrs.evolve(each.ha, election=each.election))], 0)[0]
        assert LOST in row.problem and row.lacking


def test_a_silent_master_is_known_from_its_slaves():
    silent = ElectedBroker(id=None, address="a:1", silent="no answer within 5 s")
    brokers = _named([silent, slave(2), slave(3, in_sync=(1, 2))])
    assert [each.id for each in brokers] == [1, 2, 3]
    text = said(*brokers)
    assert "Broker id 1 (a:1) is the master of epoch 3" in text and "It does not answer here: no answer within" in text
    assert "If broker id 1 failed, broker id 2 would take over within 9 s." in text
    assert "(a:3) is not in the set: the master, which does not answer here, would know." in text
    assert "Whether messages are accepted is not known: the master does not answer here." in text
    assert "If it is silent for etcd too, another one is elected" in text and "RocketMQ" not in text


def test_without_a_master():
    two = slave(2, master=None, in_sync=(1,))
    two = attrs.evolve(two, election=attrs.evolve(two.election, problem="there is no master, and 2 is not in the set"))
    text = said(two)
    assert "There is no master now; the last epoch was 3." in text
    assert "Messages are refused now: there is no master, and 2 is not in the set." in text
    assert "That ends when broker id 1 is back; or 'gantrymq cluster promote broker-a ID --unclean' elects" in text
    assert accepting(of(two)) is False
    assert "That ends when broker id 2 is elected, within seconds" in said(slave(2, master=None))


def test_an_unclean_last_member_is_not_said_to_come_back_by_itself():
    two = slave(2, master=None, in_sync=(2,))
    said_by_it = "broker id 2 was alone in its in-sync set and did not stop cleanly: a person must elect it"
    two = attrs.evolve(two, election=attrs.evolve(two.election, problem=said_by_it))
    text = said(two)
    assert "That ends when broker id 2 is back; or 'gantrymq cluster promote" in text


def test_a_master_of_rocketmq_is_known_from_the_controller():
    known = BrokerSet(
        broker="broker-a",
        master=1,
        master_address="a:1",
        epoch=4,
        in_sync_epoch=9,
        in_sync=(SetMember(1, "a:1", True), SetMember(2, "a:2", True)),
        others=(SetMember(3, "a:3", False),),
    )
    java = ElectedBroker(id=1, address="a:1", end=1000, alive=True)
    gone = ElectedBroker(id=3, address="a:3", registered=False, alive=False)
    found = of(java, slave(2), gone, controllers=("c:1",), leader="c:1", known=known)
    text = "\n".join(explained(found))
    assert (found.master_id, found.epoch, found.in_sync) == (1, 4, (1, 2))
    assert "Broker id 2 (a:2) still knows broker id 1 as the master of epoch 3." in text
    assert "The in-sync set (number 9) is 1, 2." in text
    assert "it is known to the controller only; 'gantrymq cluster forget' removes one that is gone for good" in text
    assert "If broker id 1 failed, broker id 2 would take over at once" in text and "which may lack what only" in text
    assert "The master, a broker of RocketMQ, goes on if the controllers fail" in text
    assert "Whether messages are accepted is not known: the master is RocketMQ's, which does not say so." in text
    assert accepting(found) is None


class Controller:
    """The calls of `Admin` that go to a controller, which may refuse the election."""

    def __init__(self, code=0, unclean="false"):
        self.code, self.settings, self.calls = code, {"enableElectUncleanMaster": unclean}, []

    async def controller_settings(self, address):
        return dict(self.settings)

    async def change_controller_settings(self, address, settings):
        self.settings |= settings
        self.calls.append(settings["enableElectUncleanMaster"])

    async def elect_master(self, address, cluster, broker, broker_id):
        assert (address, cluster, broker, broker_id) == ("c:1", "C", "broker-a", 2)
        self.calls.append("elect")
        if self.code:
            raise BrokerRefused(self.code, "a reason", address)


@pytest.mark.parametrize(
    ("code", "unclean", "before", "calls", "says"),
    [
        (0, False, "false", ["elect"], None),
        (2011, False, "false", ["elect"], None),  # it is the master already
        (2012, False, "false", ["elect"], "with --unclean it is elected, and acknowledged messages that it lacks are"),
        (2010, False, "false", ["elect"], "a reason"),
        (0, True, "false", ["true", "elect", "false"], None),
        (2012, True, "false", ["true", "elect", "false"], "a reason"),
        (0, True, "true", ["true", "elect"], None),
    ],
)
def test_unclean_elections_are_allowed_for_one_election_only(code, unclean, before, calls, says):
    admin, found = Controller(code, before), of(controllers=("c:1",), leader="c:1")
    work = elect_member(admin, found, slave(2), unclean=unclean)
    if says is None:
        asyncio.run(work)
    else:
        with pytest.raises(ClientError, match=says):
            asyncio.run(work)
    assert (admin.calls, admin.settings) == (calls, {"enableElectUncleanMaster": before})


class Clock:
    """Time that passes in sleeps only."""

    now = 0.0

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


FEW = "in-sync replicas not enough: {} in sync, minInSyncReplicas=3"
BECOMING = "this broker is becoming the master of epoch 4"


def second(problem, **fields):
    """Broker id 2 as the master of the next epoch."""
    own = attrs.evolve(master().election, own_id=2, master=2, epoch=4, problem=problem, **fields)
    return attrs.evolve(master(), id=2, address="a:2", election=own)


@pytest.fixture
def changed(monkeypatch, capsys):
    """Hand over a set, and see *looks* afterwards, the last one for ever. Return seconds, exit code, sentence."""

    def change(before, *looks, **more):
        clock, left = Clock(), list(looks)

        async def look(*_):
            return left.pop(0) if len(left) > 1 else left[0]

        async def work():
            return ChangedMaster(2, 4, 30)

        monkeypatch.setattr(cluster_masters, "RealClock", lambda: clock)
        monkeypatch.setattr(cluster_masters, "_set", look)
        code = 0
        try:
            asyncio.run(_change(None, before, work(), "text", None, **more))
        except click.exceptions.Exit as ended:
            code = ended.exit_code
        return clock.now, code, capsys.readouterr().out

    return change


def test_a_new_master_is_not_waited_for_if_too_few_copies_were_in_sync_before(changed):
    few = of(master(connected(2), problem=FEW.format(2), least_copies=3), slave(2))
    new = [slave(1, epoch=4, master=2), second(BECOMING)], [slave(1, epoch=4, master=2), second(FEW.format(1))]
    seconds, code, text = changed(few, few, of(*new[0]), of(*new[1]))
    assert seconds < 1 and code == 1
    assert text == (
        "broker-a: broker id 2 (a:2) is the master of epoch 4, instead of broker id 1, and accepts no messages either: "
        f"{FEW.format(2)}; that took 0.1 s\n"
    )
    assert changed(few, of(*new[1]), of(second("")))[:2] == (0, 1)
    seconds, code, text = changed(few, of(*new[1]), of(second("")), unclean=True)  # which makes another set
    assert code == 0 and "and accepts messages; that took" in text


def test_a_new_master_is_waited_for_otherwise(changed):
    healthy, few = of(master(connected(2)), slave(2)), of(second(FEW.format(1)))
    seconds, code, text = changed(healthy, few, few, of(second("")))
    assert 0 < seconds < 1 and code == 0 and "and accepts messages; that took" in text
    seconds, code, text = changed(healthy, few)
    assert seconds >= 15 and code == 1 and f"does not accept messages yet ({FEW.format(1)}); that took 15." in text


class Members:
    """The calls of `Admin` that forget a broker."""

    def __init__(self):
        self.calls = []

    async def request_parsed(self, address, code, parse, header, *, what, timeout_s):
        self.calls.append((address, header.to_ext()))
        return parse({"brokerId": header.broker_id, "epoch": 3})

    async def clean_broker_metadata(self, *args):
        self.calls.append(args)


def test_the_master_or_else_the_controller_forgets_a_broker():
    admin = Members()
    asyncio.run(forget_broker(admin, of(master(connected(2)), slave(2)), 3))
    ((address, sent),) = admin.calls
    assert (address, sent["act"], sent["brokerId"]) == ("a:1", "forget", "3")

    known = BrokerSet(
        broker="broker-a",
        master=1,
        master_address="a:1",
        epoch=4,
        in_sync_epoch=9,
        in_sync=(SetMember(1, "a:1", True), SetMember(2, "a:2", True)),
        others=(SetMember(3, "a:3", False),),
    )
    java = of(ElectedBroker(id=1, address="a:1", end=1000, alive=True), controllers=("c:1",), leader="c:1", known=known)
    admin = Members()
    asyncio.run(forget_broker(admin, java, 3))
    assert admin.calls == [("c:1", "C", "broker-a", [3])]
    with pytest.raises(ClientError, match="broker id 2 is in the in-sync set of broker-a"):
        asyncio.run(forget_broker(admin, java, 2))
    with pytest.raises(ClientError, match="only the master of broker-a can forget a broker, and it is not there"):
        asyncio.run(forget_broker(admin, of(slave(2, master=None)), 3))
    silent = _named([ElectedBroker(id=None, address="a:1", silent="no answer within 5 s"), slave(2)])
    with pytest.raises(ClientError, match="and it does not answer: no answer within 5 s"):
        asyncio.run(forget_broker(admin, of(*silent), 3))


def test_a_replaced_broker_at_the_same_address_is_not_taken_for_the_one_before():
    known = BrokerSet(
        broker="broker-a",
        master=1,
        master_address="a:1",
        epoch=3,
        in_sync_epoch=9,
        in_sync=(SetMember(1, "a:1", True), SetMember(3, "a:2", True)),
        others=(SetMember(2, "a:2", False),),
    )
    java = ElectedBroker(id=None, address="a:2", end=1000)
    for new in (attrs.evolve(slave(3), address="a:2"), java):
        one, two, three = _merged([master(connected(3)), new], known)
        assert (one.id, two.id, two.registered, two.alive) == (1, 2, False, False)
        assert (three.id, three.registered, three.alive, three.end) == (3, True, True, 1000)


def test_who_may_take_over():
    found = of(master(connected(2), connected(3), in_sync=(1, 2, 3, 4)), slave(2), slave(3, apart="not now"))
    assert candidates(attrs.evolve(found, brokers=(*found.brokers, silent(4)))) == (2,)
    assert candidates(of(slave(2, master=None, in_sync=(2,)))) == (2,)


def silent(broker_id):
    return ElectedBroker(id=broker_id, address=f"a:{broker_id}", silent="no answer")


def test_a_master_of_ours_hands_over_and_one_of_rocketmq_is_replaced_by_its_controller():
    admin = Members()
    done = asyncio.run(change_to(admin, of(master(connected(2)), slave(2)), slave(2)))
    ((address, sent),) = admin.calls
    assert (address, sent["act"], sent["brokerId"], done.epoch) == ("a:1", "handover", "2", 3)
    known = BrokerSet(
        broker="broker-a",
        master=1,
        master_address="a:1",
        epoch=4,
        in_sync_epoch=9,
        in_sync=(SetMember(1, "a:1", True), SetMember(2, "a:2", True)),
        others=(),
    )
    java = [ElectedBroker(id=each, address=f"a:{each}", alive=True) for each in (1, 2)]
    found = of(*java, controllers=("c:1",), leader="c:1", known=known)
    controller = Controller(0, "false")
    assert asyncio.run(change_to(controller, found, java[1])) is None and controller.calls == ["elect"]
    without = attrs.evolve(found, leader="", engine_problem="no controller leads: c:1 is down")
    with pytest.raises(ClientError, match="no controller leads"):
        asyncio.run(change_to(controller, without, java[1]))


@pytest.mark.parametrize(
    ("found", "wanted", "says"),
    [
        (of(master(connected(2)), slave(2)), "1", "broker id 1 is the master of broker-a already"),
        (of(master(connected(2)), slave(2), silent(3)), "3", "broker id 3 is not in the in-sync set of broker-a, 1, 2"),
        (of(master(connected(2)), slave(2)), "7", "no broker of broker-a has the id or address 7"),
        (of(slave(1, master=None), slave(2, master=None)), "2", "broker-a has no master that could hand over"),
        (of(master(data_lost="etcd has lost its data"), slave(2)), "2", "no broker of broker-a can be elected now"),
        (of(*_named([silent(None), slave(2)])), "2", "does not answer|no master"),
    ],
)
def test_a_change_that_cannot_be_asked_for(found, wanted, says):
    admin = Members()

    async def work():
        await change_to(admin, found, member_of(found, wanted))

    with pytest.raises(ClientError, match=says):
        asyncio.run(work())
    assert admin.calls == []
