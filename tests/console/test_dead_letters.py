"""Dead letters: list, causes, choice, sending again with a result for each letter."""

from __future__ import annotations

import asyncio
import json

import attrs
import pytest
from click.testing import CliRunner
from console_members import commit, make_dead
from console_visitor import Visitor as OtherVisitor
from polling import until

from gantrymq.cli import main
from gantrymq.client import Admin, Producer
from gantrymq.errors import BrokerRefused, CallTimeout, NoMessageFound
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest
from gantrymq_admin import resending
from gantrymq_console.access.users import Everyone, Role, User
from gantrymq_console.data import dead_letters, resend_notes, resends
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.resend_notes import ResendNotes


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
    page = dead.get("/groups/billing/dlq?sent=all")
    started = dead.confirm(dead.submit(page, "/resend", scope="all", **fields))
    assert started.status == 200, started.text
    return done(dead)


def done(dead):
    job = list(dead.console.jobs._jobs.values())[-1]
    dead.running.run(ended(job))
    return dead.api(f"/groups/billing/dlq/{job.id}")["data"], dead.get(f"/groups/billing/dlq/{job.id}").text


def states(dead):
    """Return the state of each letter, the oldest first."""
    data = dead.api("/groups/billing/dlq?sent=all")["data"]
    return [data["sent_again"][f"{each['broker']}:{each['queue_offset']}"]["state"] for each in data["letters"]][::-1]


def keys(dead, sent):
    return [each["keys"] for each in dead.api(f"/groups/billing/dlq?sent={sent}")["data"]["letters"]]


def test_what_was_sent_again_by_command_or_here_is_shown_and_left_out(dead):
    words = ["group", "dlq", "resend", "billing", "1", "-n", dead.running.namesrv]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert states(dead) == ["no", "yes", "no"]
    assert [keys(dead, each) for each in ("no", "yes", "unknown", "all")] == [
        ["three", "one"],
        ["two"],
        [],
        ["three", "two", "one"],
    ]
    assert [each["keys"] for each in dead.api("/groups/billing/dlq")["data"]["letters"]] == ["three", "one"]
    preview = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all")
    assert "2 dead letters go to" in preview.text and "1 were sent again before" in preview.text
    assert "Those that were sent again before are left out." in preview.text
    job, _ = send_all(dead)
    assert (job["sent"], job["sent_before"], job["failed"]) == ("2", "1", "0")
    second = dead.submit(dead.get("/groups/billing/dlq?sent=all"), "/resend", scope="all")
    assert second.status == 400 and "all of the chosen letters were sent again before" in second.text
    assert "Every letter of this time was sent again." in dead.get("/groups/billing/dlq").text
    again = dead.submit(dead.get("/groups/billing/dlq?sent=all"), "/resend", scope="all", again="on")
    assert "arrive once more" in again.text and "resend billing --all --to group --again" in again.text
    job, _ = send_all(dead, again="on")
    assert (job["sent"], job["sent_before"]) == ("3", "0")
    assert len(dead.running.pull("%RETRY%billing")) == 6


@pytest.mark.parametrize(("scope", "counted"), [("all", 200), ("1", 0)])
def test_letters_that_come_after_the_preview_neither_stop_a_run_nor_are_sent(dead, monkeypatch, scope, counted):
    monkeypatch.setattr("gantrymq_console.pages.dead_letters.MOST_COUNTED", counted)
    preview = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope=scope)
    assert "3 dead letters" in preview.text and "Letters that arrived after" in preview.text
    dead.running.run(dead.running.cluster.put("%DLQ%billing", b"newer"))
    started = dead.confirm(preview)
    assert started.status == 200, started.text
    data, text = done(dead)
    assert (data["total"], data["sent"]) == ("3", "3") and "3 sent and 0 failed of 3." in text
    assert len(dead.running.pull("%RETRY%billing")) == 3


def test_a_preview_of_more_letters_than_are_counted_says_at_most(dead, monkeypatch):
    words = ["group", "dlq", "resend", "billing", "1", "-n", dead.running.namesrv]
    assert CliRunner().invoke(main, words).exit_code == 0
    monkeypatch.setattr("gantrymq_console.pages.dead_letters.MOST_COUNTED", 2)
    page = dead.get("/groups/billing/dlq")
    for target, text in (
        ("group", "At most 3 dead letters go to group billing only"),
        ("retry", "At most 3 dead letters go to the retry topic of group billing"),
        ("topic", "At most 3 dead letters of group billing go to their original topics"),
    ):
        preview = dead.submit(page, "/resend", scope="all", target=target)
        assert text in preview.text and "Above 2 letters, those that are left out are not counted" in preview.text
    assert "At most" in dead.submit(page, "/resend", scope="all", again="on").text  # unknown ones are left out
    whole = dead.submit(page, "/resend", scope="all", again="on", unknown="on").text
    assert "3 dead letters go to" in whole and "At most" not in whole and "not counted" not in whole
    started = dead.confirm(preview)
    assert "Sending has begun: 3 letters are chosen" in started.text
    assert done(dead)[0]["sent"] == "2"
    assert ("dead_letters.resend", "at most 3 to topic") in [(each.action, each.change) for each in dead.audit.entries]


def test_a_preview_is_shown_again_if_its_own_letters_were_sent_meanwhile(dead):
    preview = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all")
    words = ["group", "dlq", "resend", "billing", "1", "-n", dead.running.namesrv]
    assert CliRunner().invoke(main, words).exit_code == 0
    dead.running.run(dead.running.cluster.put("%DLQ%billing", b"newer"))
    again = dead.confirm(preview)
    assert again.status == 409 and "2 dead letters go to" in again.text
    assert dead.confirm(again).status == 200
    assert (done(dead)[0]["sent"], done(dead)[0]["sent_before"]) == ("2", "1")


def test_bounds_of_a_preview_that_were_changed_are_refused(dead):
    page = dead.get("/groups/billing/dlq")
    for fields in ({"until.broker-0": "x"}, {"since": "x"}, {"seen_at": "9" * 30}):
        refused = dead.submit(page, "/resend", scope="all", **{"seen_at": "1", **fields})
        assert refused.status == 400 and "is not a number" in refused.text


def test_the_caption_names_what_is_listed_and_the_count_is_of_all(dead, monkeypatch):
    words = ["group", "dlq", "resend", "billing", "1", "-n", dead.running.namesrv]
    assert CliRunner().invoke(main, words).exit_code == 0
    for sent, caption in (
        ("no", "Dead letters that were not sent again yet"),
        ("yes", "Dead letters that were sent again"),
        ("all", "Dead letters, sent again or not"),
    ):
        page = dead.get(f"/groups/billing/dlq?sent={sent}")
        before, _, after = page.text.partition(caption)
        assert after and "3 dead letters" in before and "dead letters" not in after.partition("Send again")[0]


def test_the_page_of_a_run_leads_to_what_it_sent_whatever_came_later(dead, monkeypatch):
    monkeypatch.setattr("gantrymq_console.data.resends._CHUNK", 1)
    send_all(dead)
    dead.running.run(make_dead(dead, "billing", [b"four", b"five"]))
    job = list(dead.console.jobs._jobs.values())[-1]
    page = dead.get(dead.get(f"/groups/billing/dlq/{job.id}").link("What became of them"))
    assert "3 dead letters" in page.text and "until" in page.text
    data = dead.api(f"/groups/billing/dlq?{page.url.partition('?')[2]}")["data"]
    assert ([each["keys"] for each in data["letters"]], data["looked_at"]) == (["three", "two", "one"], 3)
    assert dead.api("/groups/billing/dlq?sent=all&until=1")["data"]["letters"] == []
    assert dead.get("/groups/billing/dlq?until=x").status == 400


def test_a_page_whose_time_is_over_leads_to_older_letters(dead, monkeypatch):
    monkeypatch.setattr("gantrymq_console.data.resends._CHUNK", 1)
    send_all(dead)
    dead.running.run(make_dead(dead, "billing", [b"four"]))
    forget_fates(dead)  # and the list
    assert keys(dead, "yes") == ["three", "two", "one"]
    looked, real = [], resends.states_of

    async def slow(*words):
        looked.append(words)
        if len(looked) == 1:
            monkeypatch.setattr("gantrymq_console.data.resends._LEFT_S", 1e9)  # the time of the page is over
        return await real(*words)

    monkeypatch.setattr(resends, "states_of", slow)
    page = dead.get("/groups/billing/dlq?sent=yes")
    assert "The newest letter of this time is none of these." in page.text and "Next" not in page.text
    assert "No letter was looked at" in dead.get("/groups/billing/dlq?sent=yes").text
    monkeypatch.setattr("gantrymq_console.data.resends._LEFT_S", 0.7)
    assert "three" in dead.get(page.link("Look at older ones")).text


def test_a_page_of_letters_ends_where_more_are_left(dead):
    data = dead.api("/groups/billing/dlq?rows=2")["data"]
    assert ([each["keys"] for each in data["letters"]], data["more"]) == (["three", "two"], True)
    data = dead.api("/groups/billing/dlq?rows=2&start=2")["data"]
    assert ([each["keys"] for each in data["letters"]], data["more"]) == (["one"], False)
    assert "3 to 3" in dead.get("/groups/billing/dlq?rows=2&start=2").text


def test_a_letter_and_its_copy_link_to_each_other_and_the_fate_is_said(dead):
    send_all(dead)
    data = dead.api("/groups/billing/dlq?sent=yes")["data"]
    letter = data["letters"][-1]
    again = data["sent_again"][f"{letter['broker']}:{letter['queue_offset']}"]
    assert (again["by"], again["topic"], again["copies"]) == ("tester", "%RETRY%billing", 1)
    assert again["fate"]["reason"] == "waiting-retry"
    page = dead.get(f"/messages/{letter['offset_id']}")
    assert "by tester" in page.text
    copy = dead.get(page.link("to %RETRY%billing"))
    assert "Sent again from a dead letter" in copy.text
    back = dead.get(copy.link(f"Dead letter of group billing at {letter['broker']}:{letter['queue_offset']}"))
    assert back.status == 200 and "Sent again" in back.text and letter["offset_id"] in back.text
    copies = dead.running.pull("%RETRY%billing")
    commit(dead, "billing", "%RETRY%billing", len(copies))
    forget_fates(dead)
    data = dead.api("/groups/billing/dlq?sent=yes")["data"]
    assert {each["fate"]["reason"] for each in data["sent_again"].values()} == {"consumed-after-retries"}
    assert "consumed" in dead.get("/groups/billing/dlq?sent=yes").text


def forget_fates(dead):
    async def forget():
        dead.cluster.forget()

    dead.running.run(forget())


def test_a_letter_that_died_again_leads_to_the_new_one(dead):
    send_all(dead)

    async def die():
        first = (await dead.running.cluster.pull("%RETRY%billing"))[0]
        back = ConsumerSendMsgBackRequest(
            offset=first.log_offset, group="billing", delay_level=-1, origin_topic="%RETRY%billing"
        )
        await dead.client.admin.request(dead.running.cluster.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)

    dead.running.run(die())
    forget_fates(dead)
    page = dead.get("/groups/billing/dlq?sent=yes")
    assert "became a dead letter again" in page.text
    assert "Sent again from a dead letter" in dead.get(page.link("the new one")).text
    assert states(dead) == ["yes", "yes", "yes", "no"]


def test_one_run_at_a_time_sends_letters_of_a_group(dead, monkeypatch):
    going, real = asyncio.Event(), Producer.send

    async def send(self, message, *queue):
        await going.wait()
        return await real(self, message, *queue)

    monkeypatch.setattr(Producer, "send", send)
    page = dead.get("/groups/billing/dlq")
    first, second = (dead.submit(page, "/resend", scope="all") for _ in range(2))
    dead.confirm(first)
    refused = dead.confirm(second)
    assert refused.status == 409 and "tester is sending dead letters of group billing" in refused.text
    assert "tester is sending" in dead.get("/groups/billing/dlq").text
    with OtherVisitor(dead.running) as other:  # another console
        other.confirm(other.submit(other.get("/groups/billing/dlq?sent=all"), "/resend", scope="all", unknown="on"))
        job, _ = done(other)
        assert job["sent"] == "0" and "being sent again by another command or console" in job["failure"]
        words = ["group", "dlq", "resend", "billing", "--all", "-n", dead.running.namesrv]
        command = CliRunner().invoke(main, words)
        assert command.exit_code == 1 and "being sent again by another" in command.output
        dead.running.run(asyncio.wait_for(_set(going), 5))
        assert done(dead)[0]["sent"] == "3"
        assert CliRunner().invoke(main, words).exit_code == 0  # the lock is released, and nothing is left to send
    assert len(dead.running.pull("%RETRY%billing")) == 3


async def _set(event):
    event.set()


def test_a_send_without_an_answer_is_not_repeated_without_a_choice(dead, monkeypatch):
    real = Producer.send
    monkeypatch.setattr(resending, "_FOUND_S", 0.0)

    async def send(self, message, *queue):
        if message.body == b"one":
            await real(self, message, *queue)  # stored, and the answer is lost
        if message.body != b"three":
            raise CallTimeout("no answer")
        return await real(self, message, *queue)

    monkeypatch.setattr(Producer, "send", send)
    job, text = send_all(dead)
    assert (job["sent"], job["unknown"], job["failed"]) in [("2", "1", "0"), ("1", "2", "0")]
    assert "it is not known whether" in text
    assert states(dead) == ["yes", "unknown", "yes"]
    assert "not known: no answer came" in dead.get("/groups/billing/dlq?sent=unknown").text
    monkeypatch.setattr(Producer, "send", real)
    refused = dead.submit(dead.get("/groups/billing/dlq?sent=all"), "/resend", scope="all")
    assert refused.status == 400
    job, _ = send_all(dead, again="on")  # the unknown one stays left out
    assert (job["sent"], job["unknown"]) == ("2", "1")
    page = dead.get("/groups/billing/dlq?sent=unknown")
    assert page.form("/resend").fields["unknown"] == "on"
    dead.confirm(dead.submit(page, "/resend", scope="all"))
    assert done(dead)[0]["sent"] == "1"
    assert states(dead) == ["yes", "yes", "yes"]
    assert [each.body for each in dead.running.pull("%RETRY%billing")].count(b"two") == 1


def test_all_sends_nothing_twice_at_brokers_without_an_index(dead, monkeypatch):
    """RocketMQ's answer as if there was no such message, if messageIndexEnable is false."""
    monkeypatch.setattr(resending, "_FOUND_S", 0.0)

    async def query_unique(self, *words, **options):
        raise NoMessageFound("not indexed")

    real = Admin.query_unique
    monkeypatch.setattr(Admin, "query_unique", query_unique)
    assert send_all(dead)[0]["sent"] == "3"
    assert states(dead) == ["unknown"] * 3
    again = dead.submit(dead.get("/groups/billing/dlq?sent=all"), "/resend", scope="all")
    assert again.status == 400 and len(dead.running.pull("%RETRY%billing")) == 3
    monkeypatch.setattr(Admin, "query_unique", real)
    assert states(dead) == ["yes"] * 3
    assert dead.running.run(_unknown(dead)) == []


async def _unknown(dead):
    return list(dead.console.resend_notes.unknown("billing"))


def test_notes_of_sends_end_when_their_copies_are_found(dead, monkeypatch):
    monkeypatch.setattr(resending, "_MOST_NOTED", 2)
    monkeypatch.setattr(dead_letters, "_BATCH", 1)
    assert send_all(dead)[0]["sent"] == "3"
    assert dead.running.run(_unknown(dead)) == []


def test_what_was_begun_before_a_console_was_killed_is_known_after_its_start(dead, tmp_path):
    world = dead.running.cluster.world

    async def killed():
        notes = ResendNotes(world, tmp_path)
        await notes.load()
        broker = dead.api_place
        await notes.begin("billing", [f"{broker}:0", f"{broker}:2"], "ann")

    dead.api_place = dead.api("/groups/billing/dlq")["data"]["letters"][0]["broker"]
    words = ["group", "dlq", "resend", "billing", "0", "-n", dead.running.namesrv]
    assert CliRunner().invoke(main, words).exit_code == 0  # the send of the first letter was stored
    dead.running.run(killed())
    dead.restart(tmp_path)
    assert states(dead) == ["yes", "no", "unknown"]
    assert "by ann" in dead.get("/groups/billing/dlq?sent=unknown").text
    job, _ = send_all(dead)
    assert (job["sent"], job["sent_before"], job["unknown"]) == ("1", "1", "1")
    (row,) = json.loads((tmp_path / "resends.json").read_text())["unknown"]
    assert row["place"].endswith(":2")
    assert len(dead.running.pull("%RETRY%billing")) == 2


def test_nothing_is_sent_while_sends_cannot_be_noted(dead, tmp_path):
    (tmp_path / "resends.json.tmp").mkdir()  # the file cannot be written
    dead.restart(tmp_path)
    job, _ = send_all(dead)
    assert (job["sent"], job["failed"]) == ("0", "3")
    assert "resends.json cannot be written" in job["failures"][0][1]
    (tmp_path / "resends.json.tmp").rmdir()
    (tmp_path / "resends.json").write_text("{")
    dead.restart(tmp_path)
    assert "is damaged" in dead.get("/groups/billing/dlq").text


def test_the_oldest_notes_are_dropped_when_there_are_too_many(visitor, monkeypatch):
    monkeypatch.setattr(resend_notes, "MOST", 3)
    notes = ResendNotes(visitor.running.cluster.world, None)

    async def fill():
        await notes.load()
        for number in range(5):
            await notes.begin("billing", [f"a:{number}"], "ann")
        return list(notes.unknown("billing"))

    assert visitor.running.run(fill()) == ["a:2", "a:3", "a:4"]


def test_it_is_shown_as_unknown_what_was_sent_again_while_a_broker_cannot_search(dead, monkeypatch):
    async def query_unique(self, *words, **options):
        raise BrokerRefused(2, "the index is not up to date", "127.0.0.1:1")

    monkeypatch.setattr(Admin, "query_unique", query_unique)
    found = dead.api("/groups/billing/dlq")
    assert found["data"]["sent_again"] is None and found["missing"][0]["what"] == "sent again"
    page = dead.get("/groups/billing/dlq")
    assert "not known which letters were sent again" in page.text
    refused = dead.submit(page, "/resend", scope="all")
    assert refused.status != 200 and "it is not known which dead letters" in refused.text
    dead.confirm(dead.submit(page, "/resend", scope="all", again="on", unknown="on"))
    assert done(dead)[0]["sent"] == "3"


def test_nothing_is_sent_again_while_a_broker_is_gone_that_may_have_copies(dead, monkeypatch):
    """The name servers have forgotten it, so that a search asks the others only, and finds no copy."""
    gone = {"broker-w": "127.0.0.1:1"}

    async def gone_now(self):
        return gone

    preview = dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all")
    monkeypatch.setattr(Cluster, "gone", gone_now)
    found = dead.api("/groups/billing/dlq")
    assert found["data"]["sent_again"] is None
    assert any("broker-w is not registered" in each["sentence"] for each in found["missing"])
    assert "broker-w is not registered" in dead.submit(dead.get("/groups/billing/dlq"), "/resend", scope="all").text
    monkeypatch.setattr(dead_letters, "MOST_COUNTED", 0)
    monkeypatch.setattr("gantrymq_console.pages.dead_letters.MOST_COUNTED", 0)
    job, text = send_all(dead)
    assert (job["sent"], job["failed"]) == ("0", "3") and "may have copies" in text
    assert preview.status == 200 and len(dead.running.pull("%RETRY%billing")) == 0
    job, _ = send_all(dead, again="on", unknown="on")
    assert job["sent"] == "3"
    gone.clear()
    assert dead.api("/groups/billing/dlq?sent=yes")["data"]["sent_again"] is not None


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


def test_what_was_filled_in_is_nobody_elses(dead, unchanged, monkeypatch):
    page = dead.get("/groups/billing/dlq")
    kept = dead.submit(page, "/resend", scope="page", target="topic").link("Cancel")

    def chosen():
        return dead.get(f"{kept}&part=live").form("/resend").fields["target"]

    assert chosen() == "topic"
    another = attrs.evolve(dead.console, identities=Everyone(User("another", Role.ADMIN)))
    monkeypatch.setattr(dead.app, "console", another)
    assert chosen() == "group"


def test_a_silent_broker_hides_no_letters_of_others(dead, monkeypatch):
    """Unless none answers."""
    silent, real = MessageQueue("%DLQ%billing", "silent", 0), dead_letters.queues_of_dead
    answers = dead_letters.dead_queue

    async def queues(*given):
        return [*await real(*given), silent]

    async def ask(consumer, queue):
        if queue == silent:
            raise CallTimeout("no answer")
        return await answers(consumer, queue)

    monkeypatch.setattr(dead_letters, "queues_of_dead", queues)
    monkeypatch.setattr(dead_letters, "dead_queue", ask)
    page, found = dead.get("/groups/billing/dlq"), dead.api("/groups/billing/dlq")
    assert "at least 3 dead letters" in page.text and "silent" in page.text
    assert found["data"]["count"] == "3" and found["data"]["partial"]
    assert [(each["what"], each["reason"]) for each in found["missing"]] == [("silent", "timeout")]

    async def only_silent(*_given):
        return [silent]

    dead.cluster.forget()
    monkeypatch.setattr(dead_letters, "queues_of_dead", only_silent)
    assert dead.request("GET", "/groups/billing/dlq").status_code == 504


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
