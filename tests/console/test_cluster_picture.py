"""The picture of a cluster: who follows whom, as SVG made at the server, with the same as text."""

from __future__ import annotations

import re

import attrs
import pytest
from pictured_cluster import HOSTILE_NAME, all_names, all_states, broker, copy_of

from gantrymq.client.admin import BrokerSet
from gantrymq.client.admin.controllers import SetMember
from gantrymq.errors import ConnectFailed
from gantrymq_admin.elected import ElectedBroker, ElectedSet
from gantrymq_console.data import cluster_picture
from gantrymq_console.data.brokers import Overview
from gantrymq_console.data.cluster import Aged
from gantrymq_console.data.cluster_picture import picture_of
from gantrymq_console.pages import brokers as brokers_page
from gantrymq_console.web.drawing import BOX_HEIGHT, BOX_WIDTH, drawing_of
from gantrymq_console.web.render import drawn

NAMES = {each.name: each for each in all_names()}


def words(name, field):
    return [getattr(each, field) for each in NAMES[name].copies]


def test_copies_of_each_name_have_states_roles_and_places_in_the_set():
    assert words("elected", "state") == ["good", "good", "warn", "bad"]
    assert words("elected", "in_set") == [True, True, False, False]
    assert words("elected", "gone") == [False, False, False, True]
    elected = NAMES["elected"]
    assert (elected.epoch, elected.in_sync_set, elected.engine, elected.leader) == (
        7,
        (1, 2),
        "controller",
        "10.0.9.1:9878",
    )
    assert words("pair-without", "role") == ["master", "acting"] and words("pair-without", "gone") == [True, False]
    assert words("pair-without", "address")[0] == "10.0.12.1:10911"  # as it was when it was registered
    assert words("rivals", "rival") == [True, True] and words("rivals", "state") == ["bad", "bad"]
    assert words("java-4", "state") == ["good", "unknown"] and words("java-4", "follows") == [None, None]
    assert words("silent", "silent") == [True] and NAMES["silent"].state == "bad"
    assert NAMES["alone"].engine == "" and NAMES["alone"].known and NAMES["alone"].state == "good"


def test_a_master_that_was_never_seen_has_a_box_without_an_address():
    row = copy_of(broker("x"), address="", in_sync_copies=None, lacking=True, problem="no master is registered")
    slave = broker("x", 1)
    (name,) = picture_of([slave], {"x": [row, copy_of(slave, following=None, in_sync=None)]}, {})
    assert [(each.role, each.address, each.gone, each.state) for each in name.copies] == [
        ("master", "", True, "bad"),
        ("slave", slave.address, False, "unknown"),
    ]


def test_a_name_whose_brokers_do_not_tell_says_so():
    one, two = broker("x", answers=False), broker("x", 1, answers=False)
    (name,) = picture_of([one, two], {}, {})
    assert not name.known and [each.follows for each in name.copies] == [None, None]


def test_sets_of_java_brokers_are_known_from_their_controller():
    master, slave = broker("x"), broker("x", 2)
    members = tuple(
        SetMember(broker_id=number, address=at, alive=True) for number, at in ((1, master.address), (2, slave.address))
    )
    known = BrokerSet(
        broker="x",
        others=members[1:],
        master=1,
        master_address=master.address,
        epoch=4,
        in_sync_epoch=1,
        in_sync=members[:1],
    )
    brokers = tuple(ElectedBroker(id=each.broker_id, address=each.address) for each in members)
    engine = ElectedSet(cluster="c", broker="x", brokers=brokers, controllers=("k:1",), leader="k:1", known=known)
    rows = [copy_of(master, in_sync_copies=None, wanted_copies=None), copy_of(slave)]
    (name,) = picture_of([master, slave], {"x": rows}, {"x": engine})
    assert (name.epoch, name.in_sync_set, name.engine) == (4, (1,), "controller")
    assert [(each.elected_id, each.in_set) for each in name.copies] == [(1, True), (2, False)]


def test_boxes_do_not_overlap_and_lines_lead_to_the_followers():
    for name in NAMES.values():
        found = drawing_of(name)
        places = {(each.x, each.y) for each in found.boxes}
        assert len(places) == len(found.boxes) == len(name.copies) + bool(name.engine)
        assert all(x >= 0 and x + BOX_WIDTH <= found.width and y + BOX_HEIGHT <= found.height for x, y in places)
        assert [each.copy for each in found.lines] == [each for each in name.followers if name.masters]
        assert bool(found.votes) == bool(name.engine)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10.0.0.1:10911", "10.0.0.1:10911"),
        ("x" * 255, "x" * 15 + "…" + "x" * 14),
        ("a\u202eb\x00", "a‹U+202E›b‹U+0000›"),
        ("שלום 😀", "שלום 😀"),
    ],
)
def test_texts_of_a_picture_are_cut_and_their_signs_plain(text, shown):
    assert drawn(text) == shown


@pytest.fixture
def pictured(visitor, monkeypatch):
    states, copies, engines = all_states()

    async def overview(_cluster):
        return Aged(Overview(tuple(states)), 0)

    async def copies_of(_cluster, name, _silent):
        return tuple(copies.get(name, ()))

    async def engines_of(_cluster, names):
        assert set(names) == {name for name, rows in copies.items() if rows}
        return engines

    monkeypatch.setattr(brokers_page, "overview", overview)
    monkeypatch.setattr(brokers_page, "copies_of_name", copies_of)
    monkeypatch.setattr(brokers_page, "engines_of", engines_of)
    return visitor


def test_the_page_has_a_picture_whose_boxes_lead_to_their_brokers(pictured):
    page = pictured.get("/brokers")
    html = page.response.text
    assert html.count('<svg class="picture"') == len(NAMES)
    links = re.findall(r'<a href="([^"]*)" aria-label="([^"]*)"', html)
    labels = [label for _, label in links]
    assert "elected, elected master, 10.0.7.1:10911, healthy, id 2, in-sync set" in labels
    assert (
        "elected, slave 2, 10.0.7.3:10911, has a problem, id 3, outside the set, not in sync, 1.2 MiB, 3.2 s" in labels
    )
    assert "java-4, slave 1, 10.0.6.2:10911, unknown, unknown, lag unknown" in labels
    assert [to for to, label in links if label.startswith("elected, slave 2")] == ["brokers/elected?id=2"]
    assert "epoch 7, in-sync set 1, 2" in page.text and "controller 10.0.9.1:9878" in page.text
    assert html.count('rect class="box bad gone') == 2 and html.count("one of several masters</text>") == 2
    text = page.text[page.text.index("The same as a table") :]
    assert "elected slave 1 10.0.7.2:10911 in sync 0 B id 1, in-sync set ✓ healthy" in text
    assert "rivals master 10.0.6.66:10911 id" not in text and "two brokers are registered with id 0" in text


def test_hostile_names_stay_text_in_the_picture(pictured):
    html = pictured.get("/brokers").response.text
    assert HOSTILE_NAME not in html and "<script>alert" not in html and "\u202e" not in html.replace("&#", "")
    assert "style=" not in html
    pictures = "".join(re.findall(r'<svg class="picture".*?</figure>', html, re.S))
    assert "<span" not in pictures  # no element of HTML in an SVG


def test_twenty_names_with_three_copies_each_stay_small(pictured, monkeypatch):
    states, copies = [], {}
    for number in range(20):
        of_name = [broker(f"broker-{number:02}", each) for each in range(3)]
        states += of_name
        copies[of_name[0].name] = [copy_of(each) for each in of_name]

    async def overview(_cluster):
        return Aged(Overview(tuple(states)), 0)

    async def copies_of(_cluster, name, _silent):
        return tuple(copies[name])

    async def engines_of(*_):
        return {}

    for name, function in (("overview", overview), ("copies_of_name", copies_of), ("engines_of", engines_of)):
        monkeypatch.setattr(brokers_page, name, function)
    page = pictured.get("/brokers")
    assert page.response.text.count('<path class="line good"') == 40 and len(page.response.text) < 150_000


def test_engines_that_cannot_be_asked_are_left_out(visitor, monkeypatch):
    async def fail(*_):
        raise ConnectFailed("no")

    monkeypatch.setattr(cluster_picture, "ask_set", fail)
    assert visitor.running.run(cluster_picture.engines_of(visitor.cluster, ["broker-a", "nobody"])) == {}


def test_the_json_twin_has_the_picture(visitor):
    (name,) = visitor.api("/brokers")["data"]["picture"]
    assert (name["name"], name["engine"], [each["role"] for each in name["copies"]]) == ("broker-a", "", ["master"])
    assert attrs.fields(cluster_picture.PicturedCopy).state.name in name["copies"][0]
