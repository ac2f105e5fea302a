"""Dead letters: list, causes, choice, sending again with a result for each letter."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from console_members import commit
from polling import until

from gantrymq.cli import main
from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused
from gantrymq.loose_json import dumps
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest


async def make_dead(visitor, group, bodies):
    """Store messages as dead letters of *group*: a member sends them back with the delay level -1."""
    cluster, admin = visitor.running.cluster, visitor.client.admin
    await cluster.create_topic("Orders", 1)
    sent = [await cluster.send("Orders", body, keys=body.decode()) for body in bodies]
    heartbeat = dumps({"clientID": "c1", "consumerDataSet": [{"groupName": group}]})
    await admin.request(cluster.broker_address, RequestCode.HEART_BEAT, body=heartbeat)
    for each in sent:
        offset = int(each.offset_id[16:], 16)
        back = ConsumerSendMsgBackRequest(offset=offset, group=group, delay_level=-1, origin_topic="Orders")
        await admin.request(cluster.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
    if bodies:
        await visitor.client.wait_ready(f"%DLQ%{group}")


async def ended(job):
    await until(lambda: not job.is_running, "end of the job", 30, poll_s=0.005)


@pytest.fixture
def dead(visitor):
    visitor.running.run(make_dead(visitor, "billing", [b"one", b"two", b"three"]))
    return visitor


def test_the_letters_are_listed_with_their_causes(dead):
    page, twin = dead.get("/groups/billing/dlq"), dead.api("/groups/billing/dlq")["data"]
    assert twin["count"] == "3"
    assert [each["keys"] for each in twin["letters"]] == ["three", "two", "one"]
    (cause,) = twin["causes"]
    assert (cause["origin_topic"], cause["count"]) == ("Orders", "3")
    assert "3 dead letters" in page.text
    assert dead.api("/groups/billing/dlq?hours=1")["data"]["count"] == "3"
    assert "gantrymq group dlq list billing --max 3" in page.text
    for query in ("hours=1", "rows=2", "rows=2&start=2"):  # the command lists the oldest, of all times
        assert dead.api(f"/groups/billing/dlq?{query}")["command"] == ""


def test_a_letter_with_a_large_body_is_sent_again_whole(visitor, monkeypatch):
    monkeypatch.setattr("gantrymq_console.data.cluster.HEAD_BYTES", 100)
    visitor.running.run(make_dead(visitor, "billing", [b"x" * 5000]))
    page = visitor.get("/groups/billing/dlq")
    job = visitor.confirm(visitor.submit(page, "/resend", scope="all", target="topic"))
    assert job.status == 200, job.text
    (found,) = visitor.console.jobs._jobs.values()
    visitor.running.run(ended(found))
    assert [len(each.body) for each in visitor.running.pull("Orders")] == [5000, 5000]


def test_chosen_letters_are_sent_again_after_a_preview(dead):
    page = dead.get("/groups/billing/dlq")
    (place,) = [
        each["broker"] + ":" + each["queue_offset"]
        for each in dead.api("/groups/billing/dlq")["data"]["letters"]
        if each["keys"] == "two"
    ]
    preview = dead.submit(page, "/resend", **{f"letter.{place}": "on", "scope": "chosen", "target": "topic"})
    assert "1 dead letter of group billing goes to its original topic" in preview.text
    job = dead.confirm(preview)
    assert job.status == 200, job.text
    (running,) = dead.console.jobs._jobs.values()
    dead.running.run(ended(running))
    done = dead.get(job.url.partition("?")[0])
    assert "1 sent and 0 failed of 1." in done.text and "ended" in done.text
    assert [each.body for each in dead.running.pull("Orders")] == [b"one", b"two", b"three", b"two"]
    assert ("dead_letters.resend", "done") in [(each.action, each.result) for each in dead.audit.entries]


def send_all(dead, **fields):
    """Send all letters again; return the JSON of the job when it has ended."""
    dead.confirm(dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all", **fields))
    job = list(dead.console.jobs._jobs.values())[-1]
    dead.running.run(ended(job))
    return dead.api(f"/groups/billing/dlq/{job.id}")["data"], dead.get(f"/groups/billing/dlq/{job.id}").text


def test_what_was_sent_again_by_command_or_here_is_shown_and_left_out(dead):
    words = ["group", "dlq", "resend", "billing", "1", "-n", dead.running.namesrv]
    assert CliRunner().invoke(main, words).exit_code == 0
    data = dead.api("/groups/billing/dlq")["data"]
    assert [data["sent_again"].get(f"{each['broker']}:{each['queue_offset']}") is None for each in data["letters"]] == [
        True,
        False,
        True,
    ]
    preview = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all")
    assert "Those that were sent again before are left out." in preview.text
    job, _ = send_all(dead)
    assert (job["sent"], job["sent_before"], job["failed"]) == ("2", "1", "0")
    job, text = send_all(dead)
    assert (job["sent"], job["sent_before"]) == ("0", "3") and "3 were sent again before and are left out." in text
    again = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all", again="on")
    assert "arrive once more" in again.text and "resend billing --all --to group --again" in again.text
    job, _ = send_all(dead, again="on")
    assert (job["sent"], job["sent_before"]) == ("3", "0")
    assert len(dead.running.pull("%RETRY%billing")) == 6


def test_it_is_shown_as_unknown_what_was_sent_again_while_a_broker_cannot_search(dead, monkeypatch):
    async def query_unique(self, *words, **options):
        raise BrokerRefused(2, "the index is not up to date", "127.0.0.1:1")

    monkeypatch.setattr(Admin, "query_unique", query_unique)
    found = dead.api("/groups/billing/dlq")
    assert found["data"]["sent_again"] is None and found["missing"][0]["what"] == "sent again"
    job, _ = send_all(dead)
    assert (job["sent"], job["failed"]) == ("0", "3") and "it is not known" in job["failures"][0][1]


def test_all_letters_of_the_page_are_sent_again_without_choosing_each(dead):
    page = dead.get("/groups/billing/dlq?rows=2")
    assert page.link("Members").endswith("/groups/billing/members")  # the tabs of the group
    preview = dead.submit(page, "/resend", scope="page", target="topic")
    assert "2 dead letters of group billing go to" in preview.text
    assert "/groups/billing/dlq?rows=2&kept=" in preview.link("Cancel")


def test_what_was_filled_in_is_there_after_cancel(dead):
    page = dead.get("/groups/billing/dlq?rows=2")
    listed = [each for each in page.form("/resend").fields if each.startswith("listed.")]
    letter = listed[1].replace("listed", "letter")
    again = dead.get(dead.submit(page, "/resend", target="topic", **{letter: "on"}).link("Cancel"))
    fields = again.form("/resend").fields
    assert (fields["scope"], fields["target"], fields[letter]) == ("chosen", "topic", "on")
    assert listed[0].replace("listed", "letter") not in fields and "data-refresh" not in again.response.text
    offsets = dead.get("/groups/billing/offsets")
    form = next(each for each in offsets.forms if "time" in each.fields)
    given = {**form.fields, "topic": "Orders", "target": "time", "time": "2026-01-02T03:04:05"}
    preview = dead.post(form.action, given)
    assert preview.status == 200, preview.text
    kept = next(each for each in dead.get(preview.link("Cancel")).forms if "time" in each.fields).fields
    assert (kept["target"], kept["time"][:16]) == ("time", "2026-01-02T03:04")
    other = preview.link("Cancel").replace("/offsets", "/dlq")  # of another page
    assert dead.get(other).status == 200 and "kept" not in dead.get("/groups/billing/dlq").url


def test_dead_letters_of_a_deleted_group_are_still_listed(dead):
    dead.running.run(dead.client.admin.delete_group(dead.running.cluster.broker_address, "billing"))
    page = dead.get("/groups/billing/dlq")
    assert page.status == 200 and "3 dead letters" in page.text


def test_nothing_chosen_and_bad_places_are_one_sentence(dead):
    page = dead.get("/groups/billing/dlq")
    assert "No dead letter is chosen" in dead.submit(page, "/resend", scope="chosen").text
    again = dead.submit(page, "/resend", scope="chosen", target="topic")  # the form is shown again
    assert again.status == 400 and "3 dead letters" in again.text
    fields = again.form("/resend").fields
    assert (fields["scope"], fields["target"]) == ("chosen", "topic")
    letter = next(each for each in fields if each.startswith("listed.")).replace("listed", "letter")
    bad = dead.submit(again, "/resend", **{letter: "on", "letter.x:y": "on"})
    assert bad.form("/resend").fields[letter] == "on"
    assert "is not BROKER:OFFSET" in dead.submit(page, "/resend", scope="chosen", **{"letter.x:y": "on"}).text
    assert dead.get("/groups/billing/dlq/0000").status == 404


def test_letters_that_are_not_there_and_unknown_ranges_select_nothing(dead):
    page = dead.get("/groups/billing/dlq")
    (broker,) = {each["broker"] for each in dead.api("/groups/billing/dlq")["data"]["letters"]}
    for place in (f"{broker}:999999", "nobody:0"):
        assert dead.submit(page, "/resend", scope="chosen", **{f"letter.{place}": "on"}).status == 404
    assert dead.submit(page, "/resend", scope="chosen", **{f"letter.{broker}:{'9' * 5000}": "on"}).status == 400
    assert "bogus is not one of" in dead.submit(page, "/resend", scope="bogus").text


def test_a_letter_that_cannot_be_sent_is_named_and_the_others_are_sent(dead):
    dead.running.run(dead.running.cluster.put("%DLQ%billing", b"stored by another program"))
    preview = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all", target="topic")
    assert "4 dead letters" in preview.text and "resend billing --all --to topic" in preview.text
    hour = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="1", target="topic")
    assert "gantrymq" not in hour.text.partition("4 dead letters")[2].partition("console")[0]  # none begins at a time
    assert dead.submit(hour, "/preferences", lang="zh").status == 200
    dead.submit(dead.get("/topics"), "/preferences", lang="en")
    dead.confirm(preview)
    (job,) = dead.console.jobs._jobs.values()
    dead.running.run(ended(job))
    twin = dead.api(f"/groups/billing/dlq/{job.id}")["data"]
    assert (twin["sent"], twin["failed"], twin["by_topic"]) == ("3", "1", {"Orders": 3})
    ((place, sentence),) = twin["failures"]
    assert place.endswith(":3") and "does not contain its topic" in sentence
    assert len(dead.running.pull("Orders")) == 6


def test_a_group_without_dead_letters_says_why(visitor):
    visitor.running.run(make_dead(visitor, "quiet", []))
    page = visitor.get("/groups/quiet/dlq")
    assert "no message failed more often" in page.text
    assert visitor.get("/groups/unknown/dlq").status in (400, 404)


def test_a_group_without_failures_has_none_and_an_unknown_one_is_not_there(visitor):
    visitor.running.create_topic("Orders", 1)
    commit(visitor, "billing", "Orders", 0)
    page = visitor.get("/groups/billing/dlq")
    assert page.status == 200 and visitor.api("/groups/billing/dlq")["data"]["count"] == "0"
    assert visitor.get("/groups/nobody/dlq").status == 404
