"""The elected master of a broker name: its page, a planned change, and what stops one."""

from __future__ import annotations

import attrs
import pytest
from console_visitor import Visitor
from elected_sets import connected, master, of, slave
from polling import wait_until

from gantrymq.client.admin import BrokerSet, SetMember
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost
from gantrymq_admin.elected import ChangedMaster, ElectedBroker
from gantrymq_admin.elected_sentences import explained
from gantrymq_console.access.users import Role
from gantrymq_console.data import masters as masters_data
from gantrymq_console.pages import masters as masters_page

NAME = "broker-a"
PATH = f"/brokers/{NAME}/master"


class Scene:
    """A set that tests change; what was asked of its master is in `asked`."""

    def __init__(self, visitor, monkeypatch):
        self.visitor, self.asked = visitor, []
        self.now = of(master(connected(2, lag=300), connected(3)), slave(2), slave(3), master_address())
        self.outcome = self.second
        monkeypatch.setattr(masters_data, "elected_set", self._look)
        monkeypatch.setattr(masters_page, "elected_set", self._look)
        monkeypatch.setattr(masters_data, "change_to", self._change)
        monkeypatch.setattr(masters_data, "_PAUSE_S", 0.01)
        visitor.get("/about")
        self._clusters = visitor.cluster.admin.clusters
        monkeypatch.setattr(visitor.cluster.admin, "clusters", self._registered)
        self.registered = True

    def second(self):
        """Broker id 2 is the master of epoch 4."""
        new = attrs.evolve(master(connected(3), own_id=2, master=2, epoch=4), id=2, address="a:2")
        self.now = of(new, slave(3, master=2, epoch=4))
        return ChangedMaster(2, 4, 41)

    async def _look(self, _cluster, _name):
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    async def _change(self, _admin, found, wanted):
        self.asked.append((found.epoch, wanted.id))
        found = self.outcome()
        if isinstance(found, Exception):
            raise found
        return found

    async def _registered(self, *given):
        info = await self._clusters(*given)
        if self.asked and self.registered:
            return attrs.evolve(info, brokers=(attrs.evolve(info.brokers[0], addresses={0: "a:2"}),))
        return info

    def preview(self, to="2"):
        self.visitor.cluster.forget()
        return self.visitor.submit(self.visitor.get(PATH), PATH, to=to)

    def ended(self, page):
        """Return the page of a change when it has ended."""
        path = page.url.partition("8088")[2].partition("?")[0]
        wait_until(lambda: not self.visitor.api(path)["data"]["running"], "end of the change")
        return self.visitor.get(path)


def master_address():
    """Return a fourth broker, which does not answer and is not in the set."""
    return ElectedBroker(id=4, address="a:4", silent="connection refused")


@pytest.fixture
def scene(visitor, monkeypatch):
    return Scene(visitor, monkeypatch)


def test_the_set_with_its_lags_and_who_may_take_over(scene):
    scene.now = of(master(connected(2, lag=300), connected(3), in_sync=(1, 2, 3)), slave(2), slave(3), master_address())
    page = scene.visitor.get(PATH)
    assert "broker id 1 a:1" in page.text and "In-sync set 1, 2, 3" in page.text and "300 B" in page.text
    assert "it does not answer: connection refused" in page.text and "accepted" in page.text
    assert page.form(PATH).fields["to"] == "2" and "broker id 4, a:4" not in page.text
    assert "gantrymq cluster explain broker-a" in page.text
    data = scene.visitor.api(PATH)["data"]
    assert [(each["id"], each["may_take_over"], each["lag_bytes"]) for each in data["set"]["members"]] == [
        (1, False, None),
        (2, True, "300"),
        (3, True, "0"),
        (4, False, None),
    ]
    assert (data["set"]["epoch"], data["set"]["in_sync"], data["set"]["hands_over"]) == (3, [1, 2, 3], True)
    assert data["set"]["sentences"] == explained(scene.now)


def test_a_change_says_what_happens_and_then_that_it_did(scene):
    preview = scene.preview()
    assert "Broker id 2 (a:2) becomes the master of broker-a, in place of broker id 1 (a:1)." in preview.text
    assert "3 → 4 epoch" in preview.text and "2 members in the in-sync set" in preview.text
    assert "300 B of the log is missing" in preview.text and "well below a second" in preview.text
    assert f"gantrymq cluster handover {NAME} --to 2 -n" in preview.text
    started = scene.visitor.confirm(preview)
    assert "has begun" in started.text
    done = scene.ended(started)
    assert scene.asked == [(3, 2)]
    assert "From broker id 1 to broker id 2: ✓ done" in done.text and "(broker id 2, a:2, epoch 4)" in done.text
    assert "the old one refused messages for 41 ms" in done.text and done.text.count("✓") == 5
    entries = [(each.change, each.result) for each in scene.visitor.audit.entries]
    assert sorted(entries) == [
        ("1 -> 2", "broker id 2 is the master of epoch 4"),
        ("master 1 -> 2, epoch 3", ""),
        ("master 1 -> 2, epoch 3", "done"),
    ]
    assert {each.target for each in scene.visitor.audit.entries} == {NAME}


def test_a_moving_lag_does_not_stop_a_change_but_an_election_does(scene):
    preview = scene.preview()
    scene.now = of(master(connected(2, lag=9), connected(3)), slave(2), slave(3))
    assert "has begun" in scene.visitor.confirm(preview).text
    scene.now = of(master(connected(2)), slave(2), slave(3))
    preview = scene.preview()
    scene.now = of(master(connected(2), epoch=7), slave(2, epoch=7), slave(3, epoch=7))
    again = scene.visitor.confirm(preview)
    assert again.status == 409 and "7 → 8 epoch" in again.text and len(scene.asked) == 1


def test_an_election_between_the_last_look_and_the_change(scene, monkeypatch):
    preview = scene.preview()

    async def later(_cluster, _name):
        return of(master(connected(2), epoch=9), slave(2, epoch=9))

    monkeypatch.setattr(masters_page, "elected_set", later)
    refused = scene.visitor.confirm(preview)
    assert refused.status == 409 and "Another master of broker-a was elected meanwhile" in refused.text
    assert scene.asked == [] and scene.visitor.audit.entries[-1].result.startswith("failed: Another master")


@pytest.mark.parametrize(
    ("to", "status", "said"),
    [
        ("4", 409, "Broker id 4 is not in the in-sync set (1, 2)"),
        ("1", 409, "Broker id 1 is the master of broker-a already"),
        ("77", 400, "No broker of broker-a has the id 77"),
        ("x", 400, "x: choose the id"),
        ("", 400, "choose the id"),
        ("9" * 30, 400, "choose the id"),
    ],
)
def test_who_cannot_take_over_is_refused_in_one_sentence(scene, to, status, said):
    page = scene.preview(to)
    assert page.status == status and said in page.text and scene.asked == []


def test_a_member_that_is_silent_cannot_take_over(scene):
    scene.now = of(master(connected(2)), ElectedBroker(id=2, address="a:2", silent="no answer"))
    page = scene.visitor.get(PATH)
    assert "No other member of the in-sync set could take over now" in page.text and "no answer" in page.text
    token = scene.visitor.api("/account")["data"]["csrf_token"]
    refused = scene.visitor.post(PATH, {"csrf": token, "to": "2", "once": "1"})
    assert refused.status == 409 and "does not answer or cannot be elected" in refused.text


def test_the_refusal_of_the_master_is_told(scene):
    scene.outcome = lambda: BrokerRefused(1, "broker id 2 is not in sync any more; 1 is still the master", "a:1")
    done = scene.ended(scene.visitor.confirm(scene.preview()))
    assert "the master was not changed" in done.text and "is not in sync any more" in done.text
    assert "Master now: broker id 1 a:1" in done.text
    results = [each.result for each in scene.visitor.audit.entries if each.change == "1 -> 2"]
    assert len(results) == 1 and results[0].startswith("failed: ") and "not in sync any more" in results[0]


def test_a_master_that_is_lost_during_the_change(scene):
    """Its connection breaks, and the set elects the wanted broker by itself: the change is made."""

    def lost():
        scene.second()
        return ConnectionLost("a:1 closed the connection")

    scene.outcome = lost
    done = scene.ended(scene.visitor.confirm(scene.preview()))
    assert "✓ done" in done.text and "closed the connection" not in done.text


def test_a_change_that_ends_with_another_master(scene):
    def other():
        new = attrs.evolve(master(connected(2), own_id=3, master=3, epoch=5), id=3, address="a:3")
        scene.now = of(new, slave(2, master=3, epoch=5))
        return CallTimeout("no answer of a:1 within 20 s")

    scene.outcome = other
    done = scene.ended(scene.visitor.confirm(scene.preview()))
    assert "the master was not changed" in done.text and "no answer of a:1" in done.text
    assert "Master now: broker id 3 a:3" in done.text


def test_a_new_master_that_refuses_messages_for_lack_of_copies(scene):
    few = "in-sync replicas not enough: 2 of 3"
    scene.now = of(master(connected(2), problem=few), slave(2))

    def second():
        new = attrs.evolve(master(own_id=2, master=2, epoch=4, problem=few), id=2, address="a:2")
        scene.now = of(new, slave(3, master=2, epoch=4))
        return ChangedMaster(2, 4, 10)

    scene.outcome = second
    preview = scene.preview()
    assert "The master refuses messages now" in preview.text
    done = scene.ended(scene.visitor.confirm(preview))
    assert "the master changed, but refuses messages" in done.text and few in done.text


def test_name_servers_that_do_not_learn_the_new_master(scene, monkeypatch):
    monkeypatch.setattr(masters_data, "_REGISTERED_S", 0.05)
    scene.registered = False
    done = scene.ended(scene.visitor.confirm(scene.preview()))
    assert "the name servers do not know it yet" in done.text


def test_a_name_server_that_is_lost_during_the_change(scene):
    def lost():
        scene.now = ConnectionLost("the name server closed the connection")
        return ChangedMaster(2, 4, 10)

    scene.outcome = lost
    done = scene.ended(scene.visitor.confirm(scene.preview()))
    assert "It ended with an error" in done.text and "the name server closed" in done.text


def test_a_master_of_rocketmq_is_replaced_by_its_controller(scene):
    known = BrokerSet(
        broker=NAME,
        master=1,
        master_address="a:1",
        epoch=3,
        in_sync_epoch=9,
        in_sync=(SetMember(1, "a:1", True), SetMember(2, "a:2", True)),
        others=(),
    )
    java = [ElectedBroker(id=each, address=f"a:{each}", end=1000, alive=True) for each in (1, 2)]
    scene.now = of(*java, controllers=("c:1",), leader="c:1", known=known)
    page = scene.visitor.get(PATH)
    assert "which does not say whether it accepts messages" in page.text and "controllers c:1" in page.text
    preview = scene.preview()
    assert f"gantrymq cluster promote {NAME} 2 -n" in preview.text and "which cannot hand over" in preview.text

    def elected():
        later = attrs.evolve(known, master=2, master_address="a:2", epoch=4)
        scene.now = of(*java, controllers=("c:1",), leader="c:1", known=later)

    scene.outcome = elected
    done = scene.ended(scene.visitor.confirm(preview))
    assert "✓ done" in done.text and "refused messages for" not in done.text
    scene.now = of(
        *java, controllers=("c:1",), leader="", known=known, engine_problem="no controller leads: c:1 is down"
    )
    scene.visitor.cluster.forget()
    page = scene.visitor.get(PATH)
    assert "no master that could be asked" in page.text and "c:1 is down" in page.text
    assert not [each for each in page.forms if each.action.endswith("/master")]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_fixed_roles_have_no_such_action_and_a_reason(gantrymq_broker, language):
    with Visitor(gantrymq_broker, language=language) as visitor:
        page = visitor.get(visitor.get(f"/brokers/{NAME}").link("Master" if language == "en" else "主节点"))
        assert ("is fixed by its settings (brokerRole)" in page.text) is (language == "en")
        assert not [each for each in page.forms if each.action.endswith("/master")]
        assert visitor.api(PATH)["data"] == {"broker": NAME, "elected": False, "set": None}
        token = visitor.api("/account")["data"]["csrf_token"]
        assert visitor.post(PATH, {"csrf": token, "to": "2", "once": "1"}).status == 409


def test_a_set_that_cannot_be_asked_is_unknown(scene):
    scene.now = ConnectFailed("no name server answers")
    page = scene.visitor.get(PATH)
    assert page.status == 200 and "no name server answers" in page.text and "Nothing is known" in page.text
    assert scene.visitor.api(PATH)["data"]["elected"] is None


def test_only_an_admin_changes_the_master(gantrymq_broker, monkeypatch):
    with Visitor(gantrymq_broker, Role.OPERATOR) as visitor:
        scene = Scene(visitor, monkeypatch)
        page = visitor.get(PATH)
        assert "you need the role administrator" in page.text and "300 B" in page.text
        assert not [each for each in page.forms if each.action.endswith("/master")]
        assert visitor.request("POST", PATH, data={"to": "2"}).status_code == 403
        assert visitor.get(f"{PATH}/abc").status == 403 and scene.asked == []


def test_in_json(scene):
    token = scene.visitor.api("/account")["data"]["csrf_token"]
    headers = {"x-csrf-token": token}
    looked = scene.visitor.request(
        "POST", f"/api/v1{PATH}", json={"to": "2", "dry_run": "true"}, headers=headers
    ).json()
    assert (looked["old"], looked["to"], looked["lag_bytes"]) == (1, 2, "300") and scene.asked == []
    started = scene.visitor.request("POST", f"/api/v1{PATH}", json={"to": "2"}, headers=headers).json()
    path = f"{PATH}/{started['data']['job']}"
    wait_until(lambda: not scene.visitor.api(path)["data"]["running"], "end of the change")
    change = scene.visitor.api(path)["data"]["change"]
    assert (change["step"], change["new"], change["epoch"], change["refused_ms"]) == ("registered", 2, 4, 41)
    assert scene.visitor.get(f"{PATH}/nothing").status == 404
