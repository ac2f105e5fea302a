"""Changes of several groups at once: choice, numbers of all before, results by row."""

from __future__ import annotations

import asyncio

import pytest
from console_members import commit, join
from console_visitor import Visitor
from polling import until

from gantrymq.client import Admin
from gantrymq.client.admin import PartialReset
from gantrymq.errors import BrokerRefused
from gantrymq_console.access.audit import AuditUnwritable
from gantrymq_console.access.users import Role
from gantrymq_console.data import group_bulk

GROUPS = ("archive", "billing", "shipping")


async def send(visitor, topic, count):
    await visitor.running.cluster.create_topic(topic, 1)
    for number in range(count):
        await visitor.running.cluster.send(topic, b"%d" % number)


@pytest.fixture
def filled(visitor):
    """Three groups that have read three of five messages of Orders; one has read Bills too."""
    visitor.running.run(send(visitor, "Orders", 5))
    visitor.running.run(send(visitor, "Bills", 2))
    for group in GROUPS:
        commit(visitor, group, "Orders", 3)
    commit(visitor, "billing", "Bills", 2)
    return visitor


def boxes(*groups):
    return {f"group.{group}": "on" for group in groups}


def press(visitor, change, **fields):
    """Fill in the form and press one of its buttons."""
    form = visitor.get("/bulk/groups").form("/bulk/groups/reset")
    return visitor.post(form.action.replace("/reset", f"/{change}"), {**form.fields, **fields})


def done(visitor):
    """Return the rows of the last job when it has ended."""
    job = list(visitor.console.jobs._jobs.values())[-1]

    async def ended():
        await until(lambda: not job.is_running, "end of the job", 30, poll_s=0.005)

    visitor.running.run(ended())
    assert visitor.get(f"/bulk/groups/{job.id}").status == 200
    return visitor.api(f"/bulk/groups/{job.id}")["data"]


def offsets(visitor, group):
    async def ask():
        found = await visitor.client.admin.group_progress(visitor.running.broker_address, group)
        return {queue.topic: each.committed for queue, each in found.items() if not queue.topic.startswith("%")}

    return visitor.running.run(ask())


def enabled(visitor):
    async def ask():
        return {
            name: each.consume_enable
            for name, each in (await visitor.client.admin.groups(visitor.running.broker_address)).items()
            if name in GROUPS
        }

    return visitor.running.run(ask())


def test_offsets_of_chosen_groups_are_reset_after_the_numbers_of_each_were_seen(filled):
    preview = press(filled, "reset", target="first", **boxes("archive", "billing"))
    assert "offsets in 3 rows" in preview.text and "group reset billing -t Bills --to earliest" in preview.text
    assert offsets(filled, "archive") == {"Orders": 3}
    assert preview.response.text.count("Reset the offsets of 2 groups") == 4, "title, heading, note and button"
    started = filled.confirm(preview)
    assert started.status == 200, started.text
    data = done(filled)
    assert {(each["group"], each["topic"], each["state"], each["read_again"]) for each in data["rows"]} == {
        ("archive", "Orders", "done", "3"),
        ("billing", "Bills", "done", "2"),
        ("billing", "Orders", "done", "3"),
    }
    assert (data["done"], data["refused"], data["unknown"], data["left"]) == (3, 0, 0, 0)
    assert [offsets(filled, each)["Orders"] for each in GROUPS] == [0, 0, 3]
    lines = [(each.target, each.result) for each in filled.audit.entries if each.action == "groups.bulk_reset"]
    assert ("archive", "done") in lines and lines.count(("billing", "done")) == 2


def test_one_topic_of_all_groups_of_the_page_is_set_to_a_time(filled):
    preview = press(filled, "reset", scope="page", target="time", time="2020-01-01T00:00:00", topic="Orders")
    assert "offsets in 3 rows" in preview.text and "Read again" in preview.text
    assert filled.get(preview.link("Cancel")).form("/bulk/groups/reset").fields["topic"] == "Orders"
    filled.confirm(preview)
    assert [each["state"] for each in done(filled)["rows"]] == ["done"] * 3


def test_numbers_that_changed_are_shown_again(filled):
    preview = press(filled, "reset", target="first", **boxes("archive"))
    commit(filled, "archive", "Orders", 4)
    again = filled.confirm(preview)
    assert again.status == 409 and "The numbers changed" in again.text
    assert filled.confirm(again).status == 200


def test_messages_that_come_do_not_stop_a_reset_to_the_end(filled):
    preview = press(filled, "reset", target="last", **boxes("archive"))
    assert "these numbers move" in preview.text
    filled.running.run(filled.running.cluster.send("Orders", b"new"))
    assert filled.confirm(preview).status == 200
    (row,) = done(filled)["rows"]
    assert (row["state"], row["skipped"]) == ("done", "3")
    filled.running.run(filled.running.cluster.send("Orders", b"newer"))
    page = filled.get("/groups/archive/offsets")
    form = next(each for each in page.forms if "target" in each.fields)
    one = filled.post(form.action, {**form.fields, "topic": "Orders", "target": "last"})
    assert "messages that come until then are skipped too" in one.text
    filled.running.run(filled.running.cluster.send("Orders", b"newest"))
    told = filled.confirm(one)
    assert told.status == 200 and "2 are skipped" in told.text
    form = next(each for each in filled.get("/groups/shipping/offsets").forms if "target" in each.fields)
    first = filled.post(form.action, {**form.fields, "topic": "Orders", "target": "first"})
    assert "are skipped too" not in first.text
    commit(filled, "shipping", "Orders", 4)
    assert filled.confirm(first).status == 409


def test_consumption_is_stopped_and_allowed(filled):
    filled.confirm(press(filled, "stop", **boxes("archive", "shipping")))
    assert done(filled)["done"] == 2
    assert enabled(filled) == {"archive": False, "billing": True, "shipping": False}
    preview = press(filled, "stop", **boxes(*GROUPS))
    assert "1 group will get no messages" in preview.text and "Nothing would change" in preview.text
    assert "group create billing --no-consume" in preview.text
    nothing = press(filled, "stop", **boxes("archive"))
    assert nothing.status == 400 and "none of the chosen groups can be changed like this" in nothing.text
    filled.confirm(press(filled, "allow", scope="page"))
    data = done(filled)
    assert sorted(each["state"] for each in data["rows"]) == ["done", "done", "nothing"]
    assert set(enabled(filled).values()) == {True}


def test_a_deletion_asks_for_the_number_of_groups(filled):
    join(filled, "billing", "c1", "Orders")
    assert "Also delete their offsets" in filled.get("/bulk/groups").text
    preview = press(filled, "delete", clean_offsets="on", **boxes("archive", "billing"))
    assert "Their offsets are deleted" in preview.text and ">Delete 2 groups</button>" in preview.response.text
    assert "2 groups will be deleted" in preview.text
    wrong = filled.confirm(preview, typed="3")
    assert wrong.status == 422 and "type 2 to confirm" in wrong.text
    filled.confirm(wrong, typed="2")
    assert done(filled)["done"] == 2
    assert set(enabled(filled)) == {"shipping"}
    (line,) = [each for each in filled.audit.entries if each.result == "done" and each.target == "2"]
    assert "archive, billing" in line.change


def test_groups_that_cannot_be_changed_are_named_and_the_others_are(filled, monkeypatch):
    names = {**boxes("archive", "nobody", "TOOLS_CONSUMER", "billing", "shipping")}
    preview = press(filled, "reset", target="last", topic="Orders", **names)
    assert "There is no group nobody" in preview.text and "group of the brokers themselves" in preview.text
    real = Admin.reset_offsets

    async def reset_offsets(self, group, topic, target, **options):
        if not options.get("dry_run") and group == "billing":
            raise BrokerRefused(1, "the disk is full", "127.0.0.1:1")
        if not options.get("dry_run") and group == "shipping":
            raise PartialReset("broker-b failed")
        return await real(self, group, topic, target, **options)

    monkeypatch.setattr(Admin, "reset_offsets", reset_offsets)
    filled.confirm(preview)
    data = done(filled)
    assert {each["group"]: each["state"] for each in data["rows"]} == {
        "archive": "done",
        "nobody": "refused",
        "TOOLS_CONSUMER": "refused",
        "billing": "refused",
        "shipping": "unknown",
    }
    assert (data["done"], data["refused"], data["unknown"]) == (1, 3, 1)
    page = filled.get(f"/bulk/groups/{data['id']}")
    assert "the disk is full" in page.text and "The same change can be repeated" in page.text


def test_a_group_that_the_preview_left_out_is_not_changed_later(filled, monkeypatch):
    """Its brokers did not answer in time twice, for the preview and at the confirmation, and do for the run."""
    real, late = group_bulk._planned, []

    async def planned(cluster, group, wanted):
        if group == "billing" and len(late) < 2:
            late.append(group)
            refusal = group_bulk.Refusal("groups.bulk_late")
            return [group_bulk.BulkRow(group, wanted.topic, "refused", refusal=refusal)]
        return await real(cluster, group, wanted)

    monkeypatch.setattr(group_bulk, "_planned", planned)
    preview = press(filled, "delete", **boxes("archive", "billing"))
    assert "1 group will be deleted" in preview.text and "this group is left out" in preview.text
    filled.confirm(preview, typed="1")
    assert {each["group"]: each["state"] for each in done(filled)["rows"]} == {"archive": "done", "billing": "stopped"}
    assert set(enabled(filled)) == {"billing", "shipping"}


def test_a_stopped_run_leaves_the_rest_as_it_is(filled, monkeypatch):
    going, real = asyncio.Event(), Admin.reset_offsets

    async def reset_offsets(self, group, topic, target, **options):
        if not options.get("dry_run"):
            await going.wait()
        return await real(self, group, topic, target, **options)

    for number in range(6):
        commit(filled, f"more-{number}", "Orders", 3)
    preview = press(filled, "reset", target="first", topic="Orders", scope="page")
    monkeypatch.setattr(Admin, "reset_offsets", reset_offsets)
    page = filled.confirm(preview)
    assert "runs" in page.text
    stopping = filled.submit(page, "/stop")
    assert "stops after the current groups" in stopping.text

    async def go():
        going.set()

    filled.running.run(go())
    data = done(filled)
    states = [each["state"] for each in data["rows"]]
    assert states.count("stopped") >= 3 and states.count("done") == len(states) - states.count("stopped")
    assert data["left"] == states.count("stopped")


def test_a_row_is_not_changed_if_it_cannot_be_written_to_the_audit_log(filled, monkeypatch):
    preview = press(filled, "reset", target="first", topic="Orders", **boxes("archive"))
    real = filled.audit.write

    async def write(entry):
        if entry.target == "archive" and entry.action == "groups.bulk_reset" and "skips" in entry.change:
            raise AuditUnwritable("the disk is full")
        await real(entry)

    monkeypatch.setattr(filled.audit, "write", write)
    filled.confirm(preview)
    (row,) = done(filled)["rows"]
    assert row["state"] == "refused" and "the disk is full" in row["refusal"]["words"]
    assert offsets(filled, "archive") == {"Orders": 3}


def test_a_script_names_the_groups(filled):
    address = "/api/v1/bulk/groups/reset"
    body = {"groups": "archive, shipping", "target": "first", "topic": "Orders"}
    headers = {"x-csrf-token": filled.api("/account")["data"]["csrf_token"]}
    planned = filled.request("POST", address, json={**body, "dry_run": "true"}, headers=headers).json()
    assert (planned["planned"], planned["read_again"]) == (2, "6")
    started = filled.request("POST", address, json=body, headers=headers).json()
    assert started["done"] and done(filled)["id"] == started["data"]["job"]


def test_choices_that_cannot_be_used_are_one_sentence(filled, monkeypatch):
    assert "No group is chosen." in press(filled, "reset", target="first").text
    assert "Enter a time." in press(filled, "reset", **boxes("archive")).text
    many = boxes(*(f"g{number}" for number in range(201)))
    assert "201 groups are chosen; at most 200" in press(filled, "stop", **many).text
    assert press(filled, "stop", scope="bogus").status == 400
    assert filled.get("/bulk/groups/0000").status == 404
    monkeypatch.setattr("gantrymq_console.data.group_bulk.PLAN_S", 0.0)
    late = press(filled, "reset", target="first", **boxes("archive"))
    assert late.status == 400 and "did not answer in time" in late.text


def test_roles_decide_what_is_offered_and_done(filled):
    with Visitor(filled.running, Role.OPERATOR) as operator:
        page = operator.get("/bulk/groups")
        assert page.status == 200 and "Delete several groups" not in page.text
        assert press(operator, "delete", **boxes("archive")).status == 403
    with Visitor(filled.running, Role.READER) as reader:
        assert reader.get("/bulk/groups").status == 403
        assert "Change several groups" not in reader.get("/groups").text
        found = reader.request("POST", "/bulk/groups/stop", data=boxes("archive"))
        assert found.status_code == 403
