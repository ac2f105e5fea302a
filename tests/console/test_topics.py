"""Pages and changes of topics."""

from __future__ import annotations

import pytest
from console_members import commit, join, produce
from console_visitor import Visitor

from gantrymq_console.access.users import Role


@pytest.fixture
def orders(visitor):
    """A topic of two queues with three messages."""
    visitor.running.create_topic("Orders", 2)
    for number in range(3):
        visitor.running.send("Orders", b"%d" % number)
    return visitor


def test_the_list_shows_queues_and_messages_of_each_topic(orders):
    orders.running.create_topic("Other", 4)
    twin = orders.api("/topics")["data"]
    rows = {each["name"]: each for each in twin["topics"]}
    assert (rows["Orders"]["queues"], rows["Orders"]["messages"], rows["Orders"]["kind"]) == (2, "3", "normal")
    assert (rows["Other"]["queues"], rows["Other"]["messages"]) == (4, "0")
    assert rows["Orders"]["newest_ms"] and rows["Other"]["newest_ms"] is None
    assert twin["unknown"] == 0
    page = orders.get("/topics")
    assert page.link("Orders").endswith("/topics/Orders")


def test_the_list_is_sorted_and_filtered_at_the_server(orders):
    for name in ("Aaa", "Zzz"):
        orders.running.create_topic(name, 1)
    names = [each["name"] for each in orders.api("/topics?sort=messages")["data"]["topics"]]
    assert names[0] == "Orders"
    names = [each["name"] for each in orders.api("/topics?order=down")["data"]["topics"]]
    assert names == sorted(names, reverse=True) and {"Aaa", "Zzz"} < set(names)
    assert [each["name"] for each in orders.api("/topics?filter=zz")["data"]["topics"]] == ["Zzz"]
    assert [each["name"] for each in orders.api("/topics?start=1&rows=1")["data"]["topics"]] == ["Orders"]
    assert "No topic fits" in orders.get("/topics?filter=nothing").text
    assert orders.get("/topics?sort=wrong").status == 400


def test_system_topics_are_hidden_until_their_kind_is_chosen(orders):
    assert not [each for each in orders.api("/topics")["data"]["topics"] if each["kind"] == "system"]
    system = orders.api("/topics?kind=system")["data"]["topics"]
    assert "TBW102" in [each["name"] for each in system] and {each["kind"] for each in system} == {"system"}


def test_a_topic_shows_each_queue_with_offsets_and_times(orders):
    twin = orders.api("/topics/Orders")["data"]
    assert [each["queue"] for each in twin["queues"]] == [0, 1]
    assert sum(int(each["messages"]) for each in twin["queues"]) == 3
    for each in twin["queues"]:
        assert int(each["max_offset"]) - int(each["min_offset"]) == int(each["messages"])
        assert (each["oldest_ms"] is not None) == (int(each["messages"]) > 0)
    assert twin["route"][0]["read_queues"] == 2 and twin["head"]["messages"] == "3"
    page = orders.get("/topics/Orders")
    assert "read and write" in page.text
    assert "gantrymq topic status -t Orders" in page.text


def test_an_unknown_topic_is_404(visitor):
    page = visitor.get("/topics/Nowhere")
    assert page.status == 404 and "Nowhere" in page.text


def test_a_topic_is_created_after_a_preview(visitor):
    page = visitor.get(visitor.get("/topics").link("New topic"))
    preview = visitor.submit(page, "/new/topic", topic="Made", read_queues="3", message_type="FIFO")
    assert preview.status == 200 and "Topic Made will be created" in preview.text
    assert "gantrymq topic create -t Made -r 3 -w 3 -p 6 -a +message.type=FIFO" in preview.text
    assert visitor.get("/topics/Made").status == 404
    done = visitor.confirm(preview)
    assert "Topic Made was created." in done.text
    assert visitor.api("/topics/Made")["data"]["head"]["kind"] == "fifo"
    assert [entry.result for entry in visitor.audit.entries[-2:]] == ["", "done"]
    assert visitor.audit.entries[-1].target == "Made"
    again = visitor.submit(page, "/new/topic", topic="Made", read_queues="3")
    assert again.status == 400 and "exists already" in again.text
    assert visitor.submit(page, "/new/topic", topic="no dots.", read_queues="3").status == 400
    assert visitor.submit(page, "/new/topic", topic="Fine", read_queues="0").status == 400


def test_fewer_queues_say_how_many_messages_they_hide(orders):
    page = orders.get("/topics/Orders/settings")
    assert page.form("/topics/Orders/settings").fields["read_queues"] == "2"
    preview = orders.submit(page, "/topics/Orders/settings", read_queues="1", write_queues="1")
    held = next(each for each in orders.api("/topics/Orders")["data"]["queues"] if each["queue"] == 1)["messages"]
    assert f"This hides {held} message" in preview.text
    assert "two steps" in preview.text and "--fewer-queues" in preview.text
    done = orders.confirm(preview)
    assert "Topic Orders was changed." in done.text
    assert orders.api("/topics/Orders/settings")["data"]["brokers"][0]["read_queues"] == 1
    same = orders.submit(orders.get("/topics/Orders/settings"), "/topics/Orders/settings")
    assert same.status == 400 and "Nothing would change" in same.text


def test_retention_and_permission_are_changed_and_taken_back(orders):
    page = orders.get("/topics/Orders/settings")
    orders.confirm(orders.submit(page, "/topics/Orders/settings", reserve_hours="1.5", perm="4"))
    found = orders.api("/topics/Orders/settings")["data"]["brokers"][0]
    assert (found["attributes"], found["perm"]) == ({"reserve.time": "5400000"}, 4)
    page = orders.get("/topics/Orders/settings")
    assert page.form("/topics/Orders/settings").fields["reserve_hours"] == "1.5"
    orders.confirm(orders.submit(page, "/topics/Orders/settings", reserve_hours="", perm="6"))
    found = orders.api("/topics/Orders/settings")["data"]["brokers"][0]
    assert (found["attributes"], found["perm"]) == ({}, 6)


def test_a_topic_is_deleted_after_its_groups_were_shown_and_its_name_was_typed(orders):
    commit(orders, "Readers", "Orders")
    page = orders.get("/topics/Orders/settings")
    preview = orders.submit(page, "/topics/Orders/delete")
    assert "Topic Orders and 3 messages will be deleted at once." in preview.text and "Readers" in preview.text
    wrong = orders.confirm(preview, typed="Order")
    assert wrong.status == 422 and orders.get("/topics/Orders").status == 200
    done = orders.confirm(wrong, typed="Orders")
    assert "Topic Orders was deleted." in done.text
    assert orders.get("/topics/Orders").status == 404
    assert "Orders" not in [each["name"] for each in orders.api("/topics")["data"]["topics"]]


def test_a_confirmed_deletion_runs_only_if_the_groups_are_those_that_were_shown(orders):
    preview = orders.submit(orders.get("/topics/Orders/settings"), "/topics/Orders/delete")
    commit(orders, "Readers", "Orders")
    changed = orders.confirm(preview, typed="Orders")
    assert changed.status == 409 and "Readers" in changed.text
    assert orders.get("/topics/Orders").status == 200


def test_messages_that_come_do_not_stop_a_deletion(orders):
    preview = orders.submit(orders.get("/topics/Orders/settings"), "/topics/Orders/delete")
    orders.running.run(orders.running.cluster.send("Orders", b"new"))
    assert "Topic Orders was deleted." in orders.confirm(preview, typed="Orders").text
    assert "deletes 4 messages" in [each.change for each in orders.audit.entries]


def test_groups_and_members_that_consume_a_topic(orders):
    commit(orders, "Readers", "Orders")
    twin = orders.api("/topics/Orders/groups")["data"]
    (found,) = twin["groups"]
    assert (found["group"], found["members"], found["lag"]) == ("Readers", 0, "2")
    assert found["late_ms"] > 0
    assert twin["clients"] == []
    assert "No member of these groups is online" in orders.get("/topics/Orders/groups").text
    join(orders, "Readers", "c1<b>", "Orders", "TagA")
    (client,) = orders.api("/topics/Orders/groups")["data"]["clients"]
    assert (client["group"], client["client_id"], client["subscription"]) == ("Readers", "c1<b>", "TagA")
    page = orders.get("/topics/Orders/groups")
    assert page.link("c1<b>").endswith("/clients/show?id=c1%3Cb%3E")


def test_producers_are_those_connected_to_the_topics_brokers(orders):
    produce(orders, "Senders", "p1")
    found = orders.api("/topics/Orders/producers")["data"]["producers"]
    assert ("Senders", "p1") in [(each["group"], each["client_id"]) for each in found]
    assert orders.get("/topics/Orders/producers").link("p1").endswith("/clients/show?id=p1")


def test_forms_of_changes_are_only_for_those_who_may_use_them(orders):
    for role, change, delete in ((Role.VIEWER, 0, 0), (Role.OPERATOR, 1, 0), (Role.ADMIN, 1, 1)):
        with Visitor(orders.running, role) as visitor:
            forms = [
                each.action.rpartition("/")[2]
                for each in visitor.get("/topics/Orders/settings").forms
                if each.method == "post"
            ]
            assert (forms.count("settings"), forms.count("delete")) == (change, delete)
            page = visitor.get("/topics")
            assert bool([1 for text, _ in page.links if text == "New topic"]) == bool(change)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/", "averages of the last 10 seconds"),
        ("/brokers", "averages of the last 10 seconds"),
        ("/brokers/broker-a", "averages of the last 10 seconds"),
        ("/topics", "averages of the last minute"),
        ("/topics/Orders", "average of the last minute"),
        ("/groups", "averages of the last minute"),
    ],
)
def test_rates_say_their_period(visitor, path, said):
    visitor.running.create_topic("Orders", 1)
    commit(visitor, "billing", "Orders", 0)
    assert said in visitor.get(path).text
