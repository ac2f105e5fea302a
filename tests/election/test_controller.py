"""The engine on the controller: what Java's brokers and controllers sent, and scripted controllers."""

import base64
import hmac
import json
import re

import attrs
import pytest

pytest.importorskip("gantrymq_replication")

from functools import partial
from pathlib import Path

from scripted_cluster import Peer

from gantrymq.config import Settings
from gantrymq.errors import FormatError
from gantrymq.remoting.admission import ADMISSION_SETTINGS
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.remoting.headers.controller import ElectMasterRequest, MasterHeader
from gantrymq.remoting.inner_client import INNER_CREDENTIALS, inner_client
from gantrymq.remoting.signatures import SignedRequest
from gantrymq_replication.election.controller import ControllerEngine, ControllerSettings
from gantrymq_replication.election.controller_headers import (
    AlterRequest,
    ApplyIdRequest,
    HeartbeatRequest,
    NextIdRequest,
    RegisterRequest,
    ReplicaInfoRequest,
    read_set,
    write_set,
)
from gantrymq_replication.election.engine import Answer, EngineRefused, EngineUnreachable, Progress
from gantrymq_replication.election.machine import Standing
from gantrymq_replication.election.sync_set import Alter
from gantrymq_testing import simulated

HEADERS = {
    904: HeartbeatRequest,
    1001: AlterRequest,
    1002: ElectMasterRequest,
    1003: RegisterRequest,
    1004: ReplicaInfoRequest,
    1008: MasterHeader,
    1012: NextIdRequest,
    1013: ApplyIdRequest,
}
EMPTY = Progress(-1, 0, 0)
IDENTITY = Path("/one/brokerIdentity")
LEADS = {"controllerLeaderAddress": "c0:9878", "isLeader": "true"}


def command(row):
    [frame] = FrameDecoder().feed(base64.b64decode(row["frame"]))
    return decode(frame)


@pytest.fixture(scope="module")
def recorded(java):
    """Requests and their answers of all scenarios: pairs, with None for the answer to a oneway request."""
    found = []
    for rows in java["requests"].values():
        asked = {}
        for row in rows:
            each = command(row)
            if each.is_response:
                if (before := asked.pop((row["conn"], row["opaque"]), None)) is not None:
                    found.append((before, each))
            elif each.is_oneway:
                found.append((each, None))
            else:
                asked[row["conn"], row["opaque"]] = each
    return found


def test_our_headers_have_the_fields_of_java_requests(recorded):
    seen = set()
    for asked, _ in recorded:
        if asked.code in HEADERS:
            seen.add(asked.code)
            assert HEADERS[asked.code].from_ext(asked.ext).to_ext() == asked.ext
    assert seen == HEADERS.keys()


def test_our_sets_are_the_bytes_of_java(recorded):
    bodies = [asked.payload for asked, _ in recorded if asked.code == RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET]
    assert len(bodies) > 10
    for body in bodies:
        assert write_set(*read_set(body)) == body
    for wrong in (b"[]", b'{"syncStateSet":["1"]}', b"{}"):
        with pytest.raises(FormatError):
            read_set(wrong)


class Controllers:
    """Scripted controllers and one engine."""

    def __init__(self, world, count=1, settings=()):
        self.world = world
        self.peers = [Peer(world, f"c{number}", 9878) for number in range(count)]
        self.news, self.lost = [], []
        self.engine = ControllerEngine(
            world,
            ControllerSettings(
                addresses=tuple(each.address for each in self.peers),
                cluster="DefaultCluster",
                broker="broker-a",
                address="127.0.0.2:20911",
                identity=IDENTITY,
            ),
            partial(inner_client, world, Settings((INNER_CREDENTIALS, *ADMISSION_SETTINGS), dict(settings))),
        )

    async def open(self):
        return await self.engine.open(self.news.append, self.lost.append)


def simulate(main, count=1, answers=None, settings=()):
    async def run(world):
        world.files.make_dirs(IDENTITY.parent)
        set_ = Controllers(world, count, settings)
        for each in set_.peers:
            each.answers.update(ANSWERS)
            each.answers.update(answers or {})
            await each.start()
        try:
            return await main(set_, set_.peers[0])
        finally:
            await set_.engine.close()
            for each in set_.peers:
                await each.stop()
            await world.workers.close()

    return simulated.simulate(1, run)


MASTER = {"masterBrokerId": "1", "masterAddress": "127.0.0.2:20911", "masterEpoch": "1"}
ANSWERS = {
    904: Command(0),
    1001: Command(0, ext={"newSyncStateSetEpoch": "2"}, body=b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}'),
    1002: Command(0, ext={**MASTER, "syncStateSetEpoch": "1"}, body=b'{"brokerMemberGroup":{},"syncStateSet":[1]}'),
    1003: Command(0, body=b'{"syncStateSet":[],"syncStateSetEpoch":0}'),
    1004: Command(0, ext=MASTER, body=b'{"syncStateSet":[1],"syncStateSetEpoch":1}'),
    1005: Command(0, ext=LEADS),
    1012: Command(0, ext={"nextBrokerId": "1"}),
    1013: Command(0),
}


def test_a_conversation_has_the_requests_of_java(recorded):
    """Each code is answered with the first recorded answer; our first request of it has the fields of Java's first."""
    first, answers = {}, {}
    for asked, answer in recorded:
        first.setdefault(asked.code, asked)
        if answer is not None and answer.code == 0:
            answers.setdefault(asked.code, Command(0, ext=answer.ext, body=answer.body))
    answers[1005] = Command(0, ext=LEADS)

    async def main(controllers, peer):
        engine = controllers.engine
        assert await controllers.open() == 1
        elected = await engine.elect(EMPTY)
        assert elected.standing == Standing(1, 1, frozenset({1}), 1, "127.0.0.2:20911")
        assert (await engine.renew(EMPTY)).standing == elected.standing
        assert await engine.alter(1, Alter(1, 1, frozenset({1, 2}))) == ({1, 2}, 2)
        return peer.asked

    asked = simulate(main, answers=answers)
    assert [each.code for each in asked] == [1005, 1012, 1013, 1003, 904, 1002, 904, 1004, 1001]
    for each in asked:
        expected, found = dict(first[each.code].ext or {}), dict(each.ext or {})
        for changing in ("invokeTime", "registerCheckCode"):
            assert (expected.pop(changing, None) is None) == (found.pop(changing, None) is None)
        assert found == expected, each.code
        assert each.payload == first[each.code].payload


def test_requests_to_controllers_are_signed_with_the_inner_credentials():
    account = {"accessKey": "inner", "secretKey": "inner-secret"}

    async def main(controllers, peer):
        await controllers.open()
        await controllers.engine.alter(1, Alter(1, 1, frozenset({1, 2})))
        return peer.asked

    asked = simulate(main, settings={INNER_CREDENTIALS.key: json.dumps(account)})
    assert {each.code for each in asked} == {1005, 1012, 1013, 1003, 1001}
    for each in asked:
        sent = SignedRequest(each)
        expected = hmac.digest(b"inner-secret", sent.signed_content(), "sha1")
        assert (sent.access_key, base64.b64decode(sent.signature)) == ("inner", expected)


def test_a_controller_with_access_control_needs_the_inner_credentials():
    refusal = Command(16, remark="username cannot be null.")

    async def main(controllers, peer):
        with pytest.raises(EngineUnreachable, match="it controls access: set innerClientAuthenticationCredentials"):
            await controllers.open()

    simulate(main, answers={1005: refusal})
    simulate(main, answers={1012: refusal})


def test_a_broker_that_must_not_be_elected_does_not_tell_that_it_lives():
    async def main(controllers, peer):
        await controllers.open()
        before = len(peer.asked)
        answer = await controllers.engine.renew(EMPTY._replace(electable=False))
        assert answer.standing.master == 1
        return [each.code for each in peer.asked[before:]]

    assert simulate(main) == [1004]


def test_news_of_a_controller_are_a_reason_to_ask(recorded):
    """They are not believed: any process can send them."""
    told = [asked for asked, _ in recorded if asked.code == 1008]

    async def main(controllers, _):
        await controllers.open()
        for each in told:
            controllers.engine.role_changed(each)
        return controllers.news

    assert simulate(main) == [None] * len(told) and len(told) == 8


def test_an_application_is_repeated_with_its_check_code():
    """The broker was stopped before it heard the answer."""

    async def main(controllers, peer):
        controllers.world.files.replace(Path(f"{IDENTITY}-temp"), b"DefaultCluster#broker-a#7#10.0.0.7:1;5")
        assert await controllers.open() == 7
        assert peer.of(1013)[0].ext["registerCheckCode"] == "10.0.0.7:1;5" and not peer.of(1012)
        assert controllers.world.files.read(IDENTITY) == b"DefaultCluster#broker-a#7"
        assert controllers.world.files.stat(Path(f"{IDENTITY}-temp")) is None

    simulate(main)


def test_an_id_that_another_broker_took_is_not_used():
    ids = iter("123456")

    async def main(controllers, peer):
        assert await controllers.open() == 3
        assert len(peer.of(1013)) == 3

    answers = {
        1012: lambda _: Command(0, ext={"nextBrokerId": next(ids)}),
        1013: lambda asked: Command(0 if asked.ext["appliedBrokerId"] == "3" else 2014, remark="taken"),
    }
    simulate(main, answers=answers)


def test_the_leader_changes():
    async def main(controllers, first):
        second = controllers.peers[1]
        await controllers.open()
        assert controllers.engine.leader == "c0:9878"
        for each in controllers.peers:
            each.answers[1005] = Command(0, ext={"controllerLeaderAddress": "c1:9878"})
        first.answers[1004] = first.answers[904] = Command(2007, remark="The controller is not in leader state")
        assert (await controllers.engine.renew(EMPTY)).standing.master == 1
        assert controllers.engine.leader == "c1:9878"
        assert [each.is_oneway for each in second.of(904)] == [True, False]
        await controllers.engine.renew(EMPTY)
        await controllers.world.clock.sleep(1)
        assert first.of(904)[-1].is_oneway and not second.of(904)[-1].is_oneway

        # A break of the connection to the leader is told at once, one to another controller is not.
        await first.stop()
        await controllers.world.clock.sleep(1)
        assert not controllers.lost
        await second.stop()
        await controllers.world.clock.sleep(1)
        assert controllers.lost == ["the connection to the controller c1:9878 broke"]
        with pytest.raises(EngineUnreachable, match="no controller leads: c0:9878: .*; c1:9878: "):
            await controllers.engine.renew(EMPTY)

    simulate(main, 2)


def test_a_leader_that_does_not_answer_may_still_lead_until_its_connection_breaks():
    """Then it elects another master, so the break is told; other controllers hear that this broker lives meanwhile."""

    async def main(controllers, first):
        second = controllers.peers[1]
        await controllers.open()
        first.answers[904] = None
        with pytest.raises(EngineUnreachable, match="does not answer"):
            await controllers.engine.renew(EMPTY)
        assert controllers.engine.leader == "" and not controllers.lost
        assert len(second.of(904)) == 1
        await first.stop()
        await controllers.world.clock.sleep(1)
        assert controllers.lost == ["the connection to the controller c0:9878 broke"]

    simulate(main, 2)


@pytest.mark.parametrize(
    ("code", "answer", "error", "sentence"),
    [
        (1002, Command(2012, remark="nobody"), EngineRefused, "none of its in-sync set is alive .*2012 nobody"),
        (1002, Command(2010, remark="unknown"), EngineRefused, "the controller c0:9878 refuses: 2010 unknown"),
        (1001, Command(2001, remark="old"), EngineRefused, "refuses: 2001 old"),
        (1002, Command(0, ext={**MASTER, "masterEpoch": "0"}), EngineUnreachable, "names broker id 1 .* without an"),
        (1001, Command(1, remark="java.lang.NullPointerException"), EngineUnreachable, "failed: 1 java.lang"),
        (1001, None, EngineUnreachable, "the controller does not answer"),
        (1005, Command(0, ext={"group": "g"}), EngineUnreachable, "no controller leads: c0:9878 knows no leader"),
        (1003, Command(2010), EngineRefused, "does not know broker id 1 of broker-a: .* remove /one/brokerIdentity"),
        (1013, Command(2014), EngineRefused, "refused 5 applications for an id"),
    ],
)
def test_what_a_controller_refuses_is_told_in_a_sentence(code, answer, error, sentence):
    async def main(controllers, peer):
        peer.answers[code] = answer
        with pytest.raises(error, match=sentence):
            await controllers.open()
            await controllers.engine.elect(EMPTY)
            await controllers.engine.alter(1, Alter(1, 1, frozenset({1, 2})))

    simulate(main)


def test_a_master_that_lives_is_no_refusal():
    async def main(controllers, peer):
        await controllers.open()
        peer.answers[1002] = Command(2011, ext={**MASTER, "syncStateSetEpoch": "2"}, body=b'{"syncStateSet":[1,2]}')
        answer = await controllers.engine.elect(EMPTY)
        assert isinstance(answer, Answer) and answer.standing.members == {1, 2} and answer.standing.set_epoch == 2

    simulate(main)


def test_a_broker_that_was_forgotten_registers_again():
    async def main(controllers, peer):
        await controllers.open()
        answers = iter([Command(2008, remark="unknown"), ANSWERS[1004]])
        peer.answers[1004] = lambda _: next(answers)
        assert (await controllers.engine.renew(EMPTY)).standing.master == 1
        assert len(peer.of(1003)) == 2

    simulate(main)


def members(alive, address):
    table = {
        "inSyncReplicas": [{"alive": alive, "brokerAddress": address, "brokerId": 1, "brokerName": "broker-a"}],
        "notInSyncReplicas": [{"alive": True, "brokerAddress": "other:1", "brokerId": 2, "brokerName": "broker-a"}],
    }
    return Command(0, body=json.dumps({"replicasInfoTable": {"broker-a": table}}).encode())


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (members(True, "127.0.0.9:20911"), "broker id 1 is alive at 127.0.0.9:20911: this store is a copy of its"),
        (members(False, "127.0.0.9:20911"), ""),
        (members(True, "127.0.0.2:20911"), ""),  # of an earlier process
        (Command(0, body=b'{"replicasInfoTable":{}}'), ""),
        (Command(1, remark="java.lang.NullPointerException"), ""),
    ],
)
def test_an_identity_that_another_living_broker_has_is_not_taken(answer, refused):
    """A registration would overwrite its address, and both would be the master."""

    async def main(controllers, peer):
        controllers.world.files.replace(IDENTITY, b"DefaultCluster#broker-a#1")
        if not refused:
            assert await controllers.open() == 1
            return
        with pytest.raises(EngineRefused, match=refused):
            await controllers.open()
        assert not peer.of(1003)

    simulate(main, answers={1006: answer})


class WithoutData:
    """A controller that has lost its data, as Java's elects and cleans afterwards."""

    def __init__(self, peer):
        self.ids, self.master, self.epoch, self.elected = [], None, 0, []
        peer.answers |= {
            1002: self.elect,
            1003: lambda asked: Command(0 if int(asked.ext["brokerId"]) in self.ids else 2010),
            1004: lambda _: self.standing() if self.ids else Command(2008),
            1011: self.clean,
            1013: self.apply,
        }
        self._peer, self._cleaned = peer, 0

    def standing(self):
        ext = {"masterEpoch": str(self.epoch)}
        if self.master is not None:
            ext |= {"masterBrokerId": str(self.master), "masterAddress": "a:1"}
        return Command(0, ext=ext, body=b'{"syncStateSet":[],"syncStateSetEpoch":1}')

    def apply(self, asked):
        number = int(asked.ext["appliedBrokerId"])
        if number in self.ids or (not self.ids and number != 1):
            return Command(2014, remark="taken, or not the first one")
        self.ids.append(number)
        return Command(0)

    def elect(self, asked):
        wanted = int(asked.ext["brokerId"])
        if wanted == self.master:
            return Command(2011, ext=self.standing().ext)
        self.master, self.epoch = wanted, self.epoch + 1
        self.elected.append(wanted)
        return self.standing()

    def clean(self, asked):
        assert asked.ext["isCleanLivingBroker"] == "false", "which removes the whole set"
        self._cleaned += 1
        if self._cleaned == 1:
            return Command(2009, remark="it is alive")
        self.ids.remove(int(asked.ext["brokerControllerIdsToClean"]))
        return Command(0)


@pytest.mark.parametrize("known", [4, 5])
def test_a_controller_without_its_data_elects_in_an_epoch_after_those_of_the_logs(known):
    async def main(controllers, peer):
        peer.answers[1012] = Command(0, ext={"nextBrokerId": "2"})
        assert await controllers.open() == 2
        lost, has = WithoutData(peer), Progress(known, 100, 100)
        assert (await controllers.engine.renew(has)).standing == Standing(None, 0, frozenset(), 0)
        for broker_id, unclean in ((1, True), (2, False)):
            with pytest.raises(EngineRefused, match="elect, not brokers"):
                await controllers.engine.admit(broker_id, unclean=unclean, epoch=known)
        await controllers.engine.admit(2, unclean=True, epoch=known)
        assert (lost.master, lost.epoch) == (2, known + 1)
        assert lost.ids == [1, 2], "the lower one is kept for its broker"
        assert set(lost.elected) == {2, 2 + (1 << 32)}
        answer = await controllers.engine.renew(has)
        assert (answer.standing.master, answer.standing.epoch) == (2, known + 1)

    simulate(main)


def test_a_restarted_broker_joins_a_controller_that_has_lost_its_data_when_the_set_is_there_again():
    async def main(controllers, peer):
        controllers.world.files.replace(IDENTITY, b"DefaultCluster#broker-a#3")
        lost, has = WithoutData(peer), Progress(4, 100, 100)
        assert await controllers.engine.open(controllers.news.append, controllers.lost.append, has) == 3
        assert (await controllers.engine.renew(has)).standing.epoch == 0
        lost.ids, lost.master, lost.epoch = [1], 1, 5
        assert (await controllers.engine.renew(has)).standing.epoch == 5
        assert lost.ids == [1, 2, 3]

    simulate(main)


def test_a_controller_knows_the_ids_of_its_sets():
    async def main(controllers, peer):
        await controllers.open()
        assert [await controllers.engine.has(each) for each in (1, 2, 3, 0)] == [True, True, False, False]
        peer.answers[1006] = Command(1, remark="java.lang.NullPointerException")
        with pytest.raises(EngineUnreachable, match="NullPointerException"):
            await controllers.engine.has(2)

    simulate(main, answers={1006: members(True, "127.0.0.2:20911")})


def test_a_controller_forgets_a_broker_that_is_not_alive():
    async def main(controllers, peer):
        await controllers.open()
        await controllers.engine.forget(2)
        (asked,) = peer.of(1011)
        assert asked.ext["brokerControllerIdsToClean"] == "2" and asked.ext["isCleanLivingBroker"] == "false"
        peer.answers[1011] = Command(2009, remark="Broker 2 is alive")
        with pytest.raises(EngineRefused, match="2009 Broker 2 is alive"):
            await controllers.engine.forget(2)

    simulate(main, answers={1011: Command(0)})


LOGS = {"two": (4, 150), "three": (5, 90)}


@pytest.mark.parametrize(
    ("least", "silent", "own", "why"),
    [
        (
            2,
            ("two", "three"),
            (5, 100),
            "it waits until 2 members of the .* for broker id 2, 3, or until a",
        ),
        (1, ("two", "three"), (5, 100), ""),
        (2, ("two",), (5, 90), ""),
        (2, ("two",), (5, 89), "it ends at 89, and broker id 3, whose log is longer, is elected first"),
        (3, ("two",), (5, 100), "it waits until 3 members .* for broker id 2, or"),
        (3, (), (5, 100), ""),
        (3, (), (4, 200), "broker id 3, whose log is longer"),
    ],
)
def test_a_log_that_is_not_whole_is_compared_with_those_of_the_set(least, silent, own, why):
    async def main(controllers, peer):
        engine = controllers.engine
        engine._rules = attrs.evolve(engine._rules, least_copies=least)
        assert await controllers.open() == 1
        await controllers.world.clock.sleep(11)
        members = [{"brokerId": 1, "brokerAddress": "one:1"}]
        peers = []
        for number, name in enumerate(LOGS, 2):
            members.append({"brokerId": number, "brokerAddress": f"{name}:1", "alive": False})
            if name not in silent:
                peers.append(member := await Peer(controllers.world, name, 1).start())
                epoch, last = LOGS[name]
                body = {"epochList": [{"epoch": epoch}], "maxOffset": last}
                member.answers[1007] = Command(0, body=json.dumps(body).encode())
        outside = [{"brokerId": 9, "brokerAddress": "nine:1"}]
        table = {"broker-a": {"inSyncReplicas": members, "notInSyncReplicas": outside}}
        peer.answers[1006] = Command(0, body=json.dumps({"replicasInfoTable": table}).encode())
        said = await engine.not_whole(Progress(*own, 0, whole=False))
        assert re.search(why, said) if why else said == ""
        await engine.admit(1, unclean=True, epoch=1)
        assert await engine.not_whole(Progress(*own, 0, whole=False)) == "", "a person has decided"
        for each in peers:
            await each.stop()

    simulate(main)
