"""Pages and changes of consumer groups."""

from __future__ import annotations

import re
from urllib.parse import quote

import attrs
import pytest
from console_members import commit, join
from console_visitor import Visitor
from polling import wait_until

from gantrymq.client import Client
from gantrymq.client.admin import RequestNotServed, RunningInfo
from gantrymq.model.group import GroupConfig
from gantrymq_console.access.users import Role
from gantrymq_console.data import group, group_overview, members, table
from gantrymq_console.web.render import runnable
from gantrymq_console.web.texts import LANGUAGES, texts_of

pytest.importorskip("gantrymq_diagnosis")


@pytest.fixture
def late(visitor):
    """A group Late that has consumed 1 of 4 messages of Orders, with two queues."""
    visitor.running.create_topic("Orders", 2)
    for number in range(4):
        visitor.running.send("Orders", b"%d" % number)
    commit(visitor, "Late", "Orders", 1, 0)
    return visitor


def test_the_list_has_those_furthest_behind_first(late):
    commit(late, "Quick", "Orders", 2, 0)
    commit(late, "Quick", "Orders", 2, 1)
    twin = late.api("/groups")["data"]
    rows = {each["name"]: each for each in twin["groups"]}
    assert twin["groups"][0]["name"] == "Late"
    assert (rows["Late"]["lag"], rows["Late"]["members"], rows["Late"]["enabled"]) == ("3", 0, True)
    assert (rows["Quick"]["lag"], rows["Quick"]["late_ms"]) == ("0", 0)
    assert "TOOLS_CONSUMER" not in rows
    assert "TOOLS_CONSUMER" in [each["name"] for each in late.api("/groups?kind=all")["data"]["groups"]]
    assert [each["name"] for each in late.api("/groups?filter=QUI")["data"]["groups"]] == ["Quick"]
    named = [each["name"] for each in late.api("/groups?sort=name")["data"]["groups"]]
    assert named == sorted(named)
    assert late.get("/groups").link("Late").endswith("/groups/Late")
    assert "No group has such a name" in late.get("/groups?filter=nothing").text


@pytest.mark.parametrize("served", [True, False])
def test_the_lag_of_a_group_that_may_broadcast_is_unknown_while_it_is_offline(visitor, served, monkeypatch):
    async def create():
        for name, broadcast in (("May", True), ("Not", False)):
            config = GroupConfig(name, consume_broadcast_enable=broadcast)
            await visitor.client.admin.create_group(visitor.running.broker_address, config)

    async def refuse(*_, **__):
        raise RequestNotServed(3, "a", "no summaries")

    visitor.running.run(create())
    if not served:
        monkeypatch.setattr(table, "summary_page", refuse)
        monkeypatch.setattr(table, "summary_column", refuse)
    rows = {each["name"]: each for each in visitor.api("/groups")["data"]["groups"]}
    assert [(rows[name]["lag"], rows[name]["late_ms"]) for name in ("May", "Not")] == [(None, None), ("0", 0)]
    assert visitor.api("/groups/May")["data"]["head"]["lag"] is None


def test_the_page_of_a_group_that_pops_says_what_its_lag_leaves_out(late):
    assert "The group pops" not in late.get("/groups/Late").text
    join(late, "Late", "c1", "Orders", consumeType="CONSUME_POP")
    page = late.get("/groups/Late").text
    assert "The group pops" in page and "not acknowledged yet are not counted as behind" in page
    queues = late.get("/groups/Late/queues").text
    assert " pop pop " in queues and " nobody none " not in queues  # owner and last pull
    assert "no queue yet" not in late.get("/groups/Late/members").text


def test_the_list_shows_a_reset_and_a_deletion_at_once(late):
    """The broker's summaries are some seconds old."""
    assert late.api("/groups")["data"]["groups"][0]["lag"] == "3"
    preview = late.submit(page_with(late.get("/groups/Late/offsets"), 0), "/groups/Late/offsets", target="last")
    assert late.confirm(preview).status == 200
    (row,) = late.api("/groups?filter=Late")["data"]["groups"]
    assert (row["lag"], row["late_ms"]) == ("0", 0)
    preview = late.submit(late.get("/groups/Late/settings"), "/groups/Late/delete", clean_offsets="on")
    assert late.confirm(preview, typed="Late").status == 200
    assert not late.api("/groups?filter=Late")["data"]["groups"]


def test_a_reason_is_one_sentence_in_the_readers_language(gantrymq_broker):
    with Visitor(gantrymq_broker, language="zh") as visitor:
        visitor.running.create_topic("Orders", 1)
        visitor.running.send("Orders", b"1")
        commit(visitor, "Late", "Orders", 0, 0)
        page = visitor.get("/groups/Late")
        assert "没有在线成员" in page.text and "gantrymq group clients -n" in page.text
        assert "No member of group Late is online" not in page.text


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            "list them with: gantrymq group clients shipping",
            "list them with: gantrymq group clients -n 'a:1;b:1' shipping",
        ),
        ("see gantrymq group dlq list x; or", "see gantrymq group dlq list -n 'a:1;b:1' x; or"),
        ("gantrymq message pull -t Orders", "gantrymq message pull -n 'a:1;b:1' -t Orders"),
        ("gantrymq broker config set a=b", "gantrymq broker config set -n 'a:1;b:1' a=b"),
        ("ask again, see: gantrymq status", "ask again, see: gantrymq status -n 'a:1;b:1'"),
        ("gantrymq group list -n other:9876", "gantrymq group list -n other:9876"),
        ("install gantrymq-diagnosis", "install gantrymq-diagnosis"),
        ("gantrymq broker -c broker.conf", "gantrymq broker -c broker.conf"),
    ],
)
def test_commands_of_brokers_name_the_name_servers_of_the_console(sentence, shown):
    assert runnable(sentence, "a:1;b:1") == shown


def test_names_in_commands_of_reasons_are_quoted_for_a_shell():
    said = texts_of("en")("reasons.topic-missing", topic="a|<b>")
    assert said.startswith("topic a|&lt;b&gt; does") and said.endswith("topic create -t &#39;a|&lt;b&gt;&#39;")


def test_a_command_in_a_reason_runs_as_it_is_shown(late):
    assert f"gantrymq group clients -n {late.running.namesrv} Late" in late.get("/groups/Late").text


def test_what_was_typed_into_forms_of_groups_and_topics_stays_after_an_error(late):
    page = late.submit(late.get("/new/topic"), "/new/topic", topic="Orders", read_queues="7", perm="4", order="on")
    fields = page.form("/new/topic").fields
    assert (page.status, fields["topic"], fields["read_queues"], fields["perm"]) == (400, "Orders", "7", "4")
    assert fields["order"] == "on" and "Topic Orders exists already" in page.text
    form = late.get("/groups/Late/offsets")
    clone = late.submit(form, "/clone", clone="Late")
    assert clone.status == 400 and clone.form("/clone").fields["clone"] == "Late"
    assert clone.link("Queues").endswith("/groups/Late/queues")
    group = late.submit(late.get("/new/group"), "/new/group", group="Late", retry_max_times="3")
    assert group.status == 400 and group.form("/new/group").fields["retry_max_times"] == "3"
    assert "consume_broadcast_enable" in group.form("/new/group").fields


def test_a_group_says_why_it_gets_nothing(late):
    page = late.get("/groups/Late")
    assert "No member of group Late is online at this broker; start one" in page.text
    assert page.link("Tab Members").endswith("/groups/Late/members")
    table = late.get("/groups/Late/queues").response.text
    assert table.count("<summary>") >= 2 and "No member is online" in table
    twin = late.api("/groups/Late")["data"]
    assert (twin["head"]["lag"], twin["head"]["members"], twin["head"]["topics"]) == ("3", 0, ["Orders"])
    assert twin["findings"][0]["reason"] == "nobody-online" and twin["findings"][0]["bad"]
    assert [(each["topic"], each["behind"]) for each in twin["topics"]] == [("Orders", "3")]
    join(late, "Late", "c1", "Orders")
    found = {each["reason"]: each for each in late.api("/groups/Late")["data"]["findings"]}
    assert "nobody-online" not in found and found["not-owned"]["where"].endswith(" 0-1")
    with Visitor(late.running, language="zh") as reader:
        assert "没有成员拉取过该队列（在线成员 1 个）" in reader.get("/groups/Late").text


def test_a_group_read_by_clients_that_are_no_members_is_not_told(late):
    """Readers and pop consumers of gantrymq.client send no heartbeat for a group."""

    async def read():
        client = Client(late.running.namesrv, world=late.running.cluster.world)
        await client.start()
        reader = client.reader(group="Late")
        for queue in await reader.queues("Orders"):
            await reader.pull(queue, 0, max_count=1)
        return client

    client = late.running.run(read())
    late.cluster.forget()
    twin = late.api("/groups/Late")["data"]
    assert [(each["reason"], each["bad"]) for each in twin["findings"]] == [("read-without-members", False)]
    assert {bar["state"] for each in twin["bars"]["groups"] for bar in each["bars"]} == {"moving"}
    assert twin["bars"]["unread"] == twin["bars"]["bad"] == 0
    (row,) = (each for each in late.api("/groups")["data"]["groups"] if each["name"] == "Late")
    assert (row["lag"], row["members"], row["read_by_others"]) == ("3", 0, True)
    for language, word in (("en", "no members"), ("zh", "非成员")):
        with Visitor(late.running, language=language) as reader:
            page = reader.get("/groups")
            assert word in page.text and 'class="status bad"' not in page.response.text
            assert "#group-read-without-members" in reader.get("/groups/Late").response.text
            assert "Late" not in [each["subject"] for each in reader.api("/")["data"]["problems"]]
            for page in ("/groups/Late", "/groups/Late/queues"):
                html = reader.get(page).response.text
                (owner,) = {each["owner"] for each in reader.api("/groups/Late/queues")["data"]["queues"]}
                assert owner in html and "/member?" not in html  # it has no page
    late.running.run(client.close())
    late.running.run(late.cluster.world.clock.sleep(11))
    late.cluster.forget()
    twin = late.api("/groups/Late")["data"]
    assert [(each["reason"], each["bad"]) for each in twin["findings"]] == [("nobody-online", True)]


def stating(explained, reason, **values):
    """The explanation of a queue with another reason."""
    return attrs.evolve(explained, reason=reason, variant="", values=values, sentence="")


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "'Paid' matched none of 1,205 messages"),
        ("zh", "订阅表达式为 'Paid'，检查过的 1,205 条消息都不匹配"),
    ],
)
def test_a_wrong_tag_is_one_reason_with_its_values_in_both_languages(late, monkeypatch, language, told):
    join(late, "Late", "c1", "Orders", "Paid")
    real = group.explain_group

    async def unmatched(*given):
        found = await real(*given)
        values = {"expression": "Paid", "topic": "Orders"}
        queues = [
            stating(each, "nothing-matches", **values, count=(1204, 1)[each.queue])
            for each in found.queues
            if each.topic == "Orders"
        ]
        return attrs.evolve(found, queues=tuple(queues))

    monkeypatch.setattr(group, "explain_group", unmatched)
    with Visitor(late.running, language=language) as reader:
        page = reader.get("/groups/Late")
        assert page.text.count(told) == 1 and page.text.count("Paid") == 1, page.text
        where = {"en": "topic Orders, broker broker-a, queues 0-1", "zh": "主题 Orders，Broker broker-a，队列 0-1"}
        link = {"en": "Messages of Orders", "zh": "Orders 的消息"}
        assert where[language] in page.text
        assert page.link(link[language]).endswith("/topics/Orders/messages")


def test_the_count_of_several_queues_is_shown_without_the_sentence_of_one(late, monkeypatch):
    join(late, "Late", "c1", "Orders")
    real = group.explain_group

    async def counted(*given):
        found = await real(*given)
        queues = [stating(each, "not-committed", client="c1", count=1, group="Late", ago_ms=9) for each in found.queues]
        return attrs.evolve(found, queues=tuple(queues))

    monkeypatch.setattr(group, "explain_group", counted)
    page = late.get("/groups/Late").text
    assert "2 messages are with c1" in page and "1 message is with c1" not in page


def test_a_slow_member_is_no_problem_of_a_queue(late, monkeypatch):
    join(late, "Late", "c1", "Orders")
    real = group.explain_group

    async def slowly(*given):
        found = await real(*given)
        queues = [stating(each, "slow", client="c1", count=1, group="Late", ago_ms=9000) for each in found.queues]
        return attrs.evolve(found, queues=tuple(attrs.evolve(each, owner="c1") for each in queues))

    monkeypatch.setattr(group, "explain_group", slowly)
    (finding,) = [each for each in late.api("/groups/Late")["data"]["findings"] if each["reason"] == "slow"]
    page = late.get("/groups/Late")
    assert not finding["bad"] and "it goes on, slowly" in page.text and "do not move" not in page.text
    table = late.get("/groups/Late/queues").response.text
    assert 'class="status neutral"' in table and 'class="status bad"' not in table


@pytest.mark.parametrize(("language", "told"), [("en", "keeps failing at offset 3456"), ("zh", "停留在位点 3456")])
def test_a_queue_that_is_stuck_in_order_names_the_offset(late, monkeypatch, language, told):
    real = group.explain_group

    async def stuck(*given):
        found = await real(*given)
        values = {"group": "Late", "topic": "Orders", "queue": 0, "offset": 3456, "next": 3457, "age_ms": 20_000}
        queues = [stating(found.queues[0], "order-stuck", client="c1", count=7, **values), *found.queues[1:]]
        return attrs.evolve(found, queues=tuple(queues))

    monkeypatch.setattr(group, "explain_group", stuck)
    with Visitor(late.running, language=language) as reader:
        assert f"c1 {'' if language == 'zh' else 'reads it in order and '}" in (text := reader.get("/groups/Late").text)
        assert told in text and " -q 0 --to 3457" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reason_of_another_version_is_shown_in_its_own_words(late, monkeypatch, language):
    real = group.explain_group

    async def older(*given):
        found = await real(*given)
        first, second = found.queues
        queues = [
            attrs.evolve(first, reason="paused", variant="", values={}, sentence="c1 is <i>paused</i>, it seems"),
            attrs.evolve(second, reason="new-word", values={"count": 2}, sentence="a newer broker has a reason"),
        ]
        return attrs.evolve(found, queues=tuple(queues))

    monkeypatch.setattr(group, "explain_group", older)
    with Visitor(late.running, language=language) as reader:
        for path in ("/groups/Late", "/groups/Late/queues"):
            text = reader.get(path).text
            assert "c1 is <i>paused</i>, it seems" in text and "a newer broker has a reason" in text


def test_queues_of_one_owner_are_one_finding_with_the_longest_duration(late, monkeypatch):
    real = group.explain_group

    async def left(*given):
        found = await real(*given)
        queues = [stating(each, "owner-left", client="c1", ago_ms=5000 + 2000 * each.queue) for each in found.queues]
        return attrs.evolve(found, queues=tuple(queues))

    monkeypatch.setattr(group, "explain_group", left)
    page = late.get("/groups/Late").text
    assert page.count("c1 pulled it last") == 1 and "c1 pulled it last, 7 seconds ago" in page


def test_a_pending_reset_is_no_fault(late, monkeypatch):
    join(late, "Late", "c1", "Orders")
    real = group.explain_group

    async def reset(*given):
        found = await real(*given)
        return attrs.evolve(
            found,
            queues=tuple(stating(each, "reset-pending", offset=1234) for each in found.queues),
        )

    monkeypatch.setattr(group, "explain_group", reset)
    for path in ("/groups/Late/queues", "/groups/Late"):
        page = late.get(path)
        assert "Its offset was reset to 1234, which the next pull receives" in page.text
        assert 'class="status neutral"' in page.response.text and "✗ Its offset" not in page.text
        assert path == "/groups/Late" or 'class="status bad"' not in page.response.text


def test_an_unknown_group_is_404(visitor):
    page = visitor.get("/groups/Nobody")
    assert page.status == 404 and "There is no group Nobody." in page.text


def test_queues_of_a_group_with_lag_and_state(late):
    twin = late.api("/groups/Late/queues")["data"]
    assert sum(int(each["behind"]) for each in twin["queues"]) == 3
    assert [int(each["behind"]) for each in twin["queues"]] == sorted(
        (int(each["behind"]) for each in twin["queues"]), reverse=True
    )
    first = next(each for each in twin["queues"] if each["queue"] == 0)
    assert first["committed"] == "1" and first["lag_ms"] > 0
    assert late.api("/groups/Late/queues?topic=Other")["data"]["queues"] == []
    assert "Orders" in late.get("/groups/Late/queues").text


def test_members_with_subscriptions_and_conflicts(late):
    assert "No member is online" in late.get("/groups/Late/members").text
    join(late, "Late", "c1<i>", "Orders", "TagA")
    twin = late.api("/groups/Late/members")["data"]
    (member,) = twin["members"]
    assert member["client_id"] == "c1<i>" and member["addresses"]
    assert {(each["topic"], each["expression"]) for each in twin["subscriptions"]} == {("Orders", "TagA")}
    page = late.get("/groups/Late/members")
    assert page.link("c1<i>").endswith("/groups/Late/member?id=c1%3Ci%3E")
    assert "configured alike" in page.text
    with Visitor(late.running) as other:
        join(other, "Late", "c2", "Orders", "TagB")
        twin = late.api("/groups/Late/members")["data"]
        assert [each["kind"] for each in twin["conflicts"]] == ["subscriptions"]
        assert "c1<i> (127.0.0.1:" in late.get("/groups/Late/members").text


def test_a_member_that_does_not_answer_or_is_gone_is_an_error_in_words(late):
    page = late.get("/groups/Late/member?id=c1")
    assert page.status == 400 and "c1 is not an online member of group Late" in page.text
    with Visitor(late.running, Role.VIEWER) as viewer:
        assert viewer.get("/groups/Late/member?id=c1&stacks=yes").status == 403


def test_offsets_are_reset_after_a_preview(late):
    page = late.get("/groups/Late/offsets")
    preview = late.submit(page_with(page, 0), "/groups/Late/offsets", target="first", queue="0")
    assert preview.status == 200 and "gantrymq group reset Late -t Orders --to earliest -q 0" in preview.text
    assert "Read again" in preview.text and late.api("/groups/Late")["data"]["head"]["lag"] == "3"
    done = late.confirm(preview)
    assert "The offsets of Late were set: 1 messages are read again, 0 are skipped." in done.text
    assert late.api("/groups/Late")["data"]["head"]["lag"] == "4"
    entry = late.audit.entries[-1]
    assert (entry.target, entry.change, entry.result) == ("Late", "Orders: skips 0, reads 1 again", "done")


def test_a_reset_by_time_accepts_utc_and_refuses_the_future(late):
    page = page_with(late.get("/groups/Late/offsets"), 0)
    preview = late.submit(page, "/groups/Late/offsets", target="time", time="2026-01-01T00:00")
    assert preview.status == 200 and "2026-01-01 00:00:00 UTC" in preview.text
    zoned = late.submit(page, "/groups/Late/offsets", target="time", time="x", time_utc="2026-01-01T01:00:00Z")
    assert "2026-01-01 01:00:00 UTC" in zoned.text
    assert late.submit(page, "/groups/Late/offsets", target="time", time="2999-01-01T00:00").status == 400
    assert late.submit(page, "/groups/Late/offsets", target="time", time="soon").status == 400
    assert late.submit(page, "/groups/Late/offsets", target="offset", offset="-1").status == 400


def test_skipping_what_waits(late):
    page = page_with(late.get("/groups/Late/offsets"), 1)
    done = late.confirm(late.submit(page, "/groups/Late/offsets"))
    assert "3 are skipped" in done.text
    assert late.api("/groups/Late")["data"]["head"]["lag"] == "0"


def test_a_reset_whose_numbers_changed_is_shown_again_instead_of_done(late):
    page = page_with(late.get("/groups/Late/offsets"), 0)
    preview = late.submit(page, "/groups/Late/offsets", target="first")
    commit(late, "Late", "Orders", 2, 0)
    changed = late.confirm(preview)
    assert changed.status == 409 and "Nothing was done" in changed.text
    assert late.confirm(changed).status == 200
    assert late.api("/groups/Late")["data"]["head"]["lag"] == "4"


def test_the_offsets_of_a_topic_that_is_left_are_deleted(late):
    late.running.create_topic("Other", 1)
    join(late, "Late", "c1", "Orders")
    refused = late.confirm(late.submit(late.get("/groups/Late/offsets"), "/groups/Late/delete-offsets", topic="Orders"))
    assert "online members of group Late read topic Orders" in refused.text
    none = late.submit(late.get("/groups/Late/offsets"), "/groups/Late/delete-offsets", topic="Other")
    assert (none.status, "Late has no offsets on Other." in none.text) == (400, True)
    join(late, "Late", "c1", "Other")
    preview = late.submit(late.get("/groups/Late/offsets"), "/groups/Late/delete-offsets", topic="Orders")
    assert "gantrymq group delete-offsets Late -t Orders" in preview.text
    assert "will be deleted at broker-a" in preview.text
    assert "Late has no offsets on Orders any more." in late.confirm(preview).text
    assert late.running.call(late.running.broker.offsets.topics_of, "Late") == []


def test_a_group_is_cloned(late):
    page = late.get("/groups/Late/offsets")
    preview = late.submit(page, "/groups/Late/clone", clone="Copy")
    assert "Group Copy will get the offsets of Late." in preview.text
    assert "gantrymq group clone -s Late -g Copy" in preview.text
    done = late.confirm(preview)
    assert "Copy has the offsets now" in done.text
    assert late.api("/groups/Copy")["data"]["head"]["lag"] == "3"
    assert late.submit(page, "/groups/Late/clone", clone="Late").status == 400


def test_consumption_is_stopped_and_allowed(late):
    page = late.get("/groups/Late/settings")
    preview = late.submit(page, "/groups/Late/stop")
    assert "will get no messages until" in preview.text and "3 messages" in preview.text
    assert "--no-consume" in preview.text
    done = late.confirm(preview)
    assert "Group Late gets no messages any more." in done.text
    assert late.api("/groups/Late")["data"]["findings"][0]["reason"] == "group-disabled"
    assert "consumption stopped" in late.get("/groups").text
    late.confirm(late.submit(late.get("/groups/Late/settings"), "/groups/Late/allow"))
    assert late.api("/groups/Late")["data"]["head"]["enabled"] is True


def test_settings_are_changed_and_others_stay(late):
    page = late.get("/groups/Late/settings")
    preview = late.submit(page, "/groups/Late/settings", retry_max_times="3", consume_enable="on")
    assert "retry_max_times" in preview.text and "consume_enable" not in preview.text
    late.confirm(preview)
    config = late.api("/groups/Late/settings")["data"]["brokers"][0]["config"]
    assert (config["retry_max_times"], config["consume_enable"]) == (3, True)
    again = late.submit(late.get("/groups/Late/settings"), "/groups/Late/settings", consume_enable="on")
    assert again.status == 400 and "Nothing would change" in again.text
    assert late.submit(page, "/groups/Late/settings", retry_max_times="many").status == 400


def test_a_group_is_created_and_deleted(visitor):
    page = visitor.get(visitor.get("/groups").link("New group"))
    preview = visitor.submit(page, "/new/group", group="Made", retry_max_times="5", consume_enable="on")
    assert "Group Made will be created" in preview.text
    assert "Group Made was created." in visitor.confirm(preview).text
    assert visitor.submit(page, "/new/group", group="Made").status == 400
    assert visitor.submit(page, "/new/group", group="no dots.").status == 400
    preview = visitor.submit(visitor.get("/groups/Made/settings"), "/groups/Made/delete", clean_offsets="on")
    assert "--clean-offsets" in preview.text and "begins as a new one" in preview.text
    assert visitor.confirm(preview, typed="Mad").status == 422
    assert "Group Made was deleted." in visitor.confirm(preview, typed="Made").text
    assert visitor.get("/groups/Made").status == 404


def test_groups_of_the_system_are_not_changed(visitor):
    page = visitor.get("/groups/TOOLS_CONSUMER/settings")
    assert page.status == 200 and "not changed here" in page.text
    assert not [each for each in page.forms if each.action.endswith("/delete")]
    token = page.form("/preferences").fields["csrf"]
    found = visitor.request("POST", "/groups/TOOLS_CONSUMER/delete", data={"csrf": token})
    assert found.status_code == 400


def test_forms_are_only_for_those_who_may_use_them(late):
    for role, change, delete in ((Role.VIEWER, 0, 0), (Role.OPERATOR, 1, 0), (Role.ADMIN, 1, 1)):
        with Visitor(late.running, role) as visitor:
            page = visitor.get("/groups/Late/settings")
            forms = [each.action.rpartition("/")[2] for each in page.forms if each.method == "post"]
            assert (forms.count("settings"), forms.count("stop"), forms.count("delete")) == (change, change, delete)
            assert visitor.get("/groups/Late/offsets").status == (200 if change else 403)
            assert ("Offsets" in [text for text, _ in page.links]) == bool(change)


def page_with(page, number):
    """Return the page with only one of its two forms that reset offsets: 0 the full one, 1 that skips."""
    resets = [each for each in page.forms if each.action.endswith("/groups/Late/offsets") and each.method == "post"]
    assert len(resets) == 2
    page.forms = [each for each in page.forms if each not in resets or each is resets[number]]
    return page


def test_a_member_tells_its_queues_and_settings_without_secrets(late):
    async def start():
        return await late.client.consumer("Late", "Orders").__aenter__()

    consumer = late.running.run(start())
    try:
        (member,) = wait_until(lambda: late.api("/groups/Late/members")["data"]["members"], "member")
        page = f"/groups/Late/member?id={quote(member['client_id'])}"
        queues = wait_until(lambda: late.api(page)["data"]["queues"], "queues of the member")
        assert {each["topic"] for each in queues} >= {"Orders"}
        assert "Queues that it reads" in late.get(page).text
        assert late.get(page).link("Ask the client for its thread stacks").endswith("&stacks=yes")
        assert late.api(page + "&stacks=yes")["data"]["asked_stacks"] is True
    finally:
        late.running.run(consumer.__aexit__(None, None, None))
    info = RunningInfo({"secretKey": "s3cret", "PROP_NAMESERVER_ADDR": "a"}, (), {}, {}, "")
    shown = members._state("G", "c", info, False).properties
    assert shown["PROP_NAMESERVER_ADDR"] == "a" and "s3cret" not in shown.values()


def test_a_group_of_many_topics_has_a_short_first_page(late, monkeypatch):
    monkeypatch.setattr(group_overview, "SHOWN", 1)
    late.running.create_topic("Payments", 1)
    late.running.send("Payments", b"x")
    commit(late, "Late", "Payments", 0)
    twin = late.api("/groups/Late")["data"]
    assert (len(twin["topics"]), twin["more_topics"]) == (1, 1)
    assert twin["topics"][0]["topic"] == "Orders"
    assert "1 more topic:" in late.get("/groups/Late").text


def test_a_group_without_offsets_may_be_one_that_broadcasts(visitor):
    address = visitor.running.broker_address
    for name, broadcast in (("fans", True), ("plain", False)):
        config = GroupConfig(name, consume_broadcast_enable=broadcast)

        async def create(config=config):
            await visitor.client.admin.create_group(address, config)

        visitor.running.run(create())
    page, head = visitor.get("/groups/fans"), visitor.api("/groups/fans")["data"]["head"]
    assert "keep the offsets themselves" in page.text
    assert (head["lag"], head["may_broadcast"]) == (None, True)
    page, head = visitor.get("/groups/plain"), visitor.api("/groups/plain")["data"]["head"]
    assert "consumes no topic" in page.text and "keep the offsets themselves" not in page.text
    assert (head["lag"], head["may_broadcast"]) == ("0", False)
    sent = visitor.running.send("Orders", b"x")
    assert "cannot be known" in visitor.get(f"/messages/{sent.message_id}?topic=Orders").text
    assert "only while one is connected" in visitor.get("/topics/Orders/groups").text


def test_a_misspelt_topic_of_members_is_a_finding(visitor):
    pytest.importorskip("gantrymq_diagnosis")
    visitor.running.create_topic("Orders", 1)
    join(visitor, "billing", "c1", "Ordres")
    (finding,) = visitor.api("/groups/billing")["data"]["findings"]
    assert finding["reason"] == "topic-missing" and finding["bad"]
    assert "topic Ordres, which this broker does not have (did you mean Orders?)" in visitor.get("/groups/billing").text


@pytest.mark.parametrize(("language", "column", "claimed"), [("en", "Out", "Consumed"), ("zh", "投递速率", "消费速率")])
def test_the_rate_of_the_list_is_what_brokers_hand_out(late, language, column, claimed):
    with Visitor(late.running, language=language) as reader:
        heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', reader.get("/groups").response.text, re.DOTALL)
    found = [re.sub(r"<[^>]*>", "", each).strip() for each in heads]
    assert any(each.startswith(column) for each in found) and not any(claimed in each for each in found), found
