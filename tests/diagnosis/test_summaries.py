"""Requests 65023 and 65025: pages of groups and of topics."""

import asyncio
import json

import pytest

from gantrymq.broker.consuming import lags
from gantrymq.broker.consuming.lags import GroupLags
from gantrymq.formats.tags_code import delay_levels_of
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.world.clock import TimeSlices
from gantrymq_diagnosis import group_rows, other_readers, topic_rows
from gantrymq_diagnosis.shared_table import KEPT_S, LATE_S, UNUSED_S

GROUPS, CONNECTIONS, TOPICS = 65023, 65024, 65025
ROWS = {GROUPS: ("groups", "group"), CONNECTIONS: ("connections", "client_id"), TOPICS: ("topics", "topic")}


async def page(client, code=GROUPS, **wanted):
    answer = await client.ask(code, None, json.dumps(wanted).encode())
    assert answer.code == 0, answer.remark
    found = json.loads(bytes(answer.payload))
    return found, found[ROWS[code][0]]


async def names(client, code=GROUPS, **wanted):
    return [each[ROWS[code][1]] for each in (await page(client, code, **wanted))[1]]


def topic(cluster, name="T", queues=2):
    cluster.broker.topics.put(TopicConfig(name, queues, queues))


async def renewed(cluster):
    await cluster.world.clock.sleep(KEPT_S + LATE_S)


def test_a_group_is_shown_with_what_it_has_to_do(beside):
    async def work(cluster, client_of):
        topic(cluster)
        one = client_of("one")
        await one.join("CG")
        _, (row,) = await page(one)
        assert row == {
            "group": "CG",
            "system": False,
            "consume_enable": True,
            "members": 1,
            "model": "CLUSTERING",
            "behind": 0,
            "behind_known": True,
            "deleted": 0,
            "late_ms": 0,
            "retry_behind": 0,
            "retry_waiting": 0,
            "dead_letters": 0,
            "consumed_per_s": 0.0,
            "read_by_others": False,
        }
        await cluster.put("T", b"x", queue_id=0)
        await cluster.world.clock.sleep(30)
        for _ in range(2):
            await cluster.put("T", b"x", queue_id=1)
        await renewed(cluster)
        found, (row,) = await page(one)
        assert row["behind"] == 3
        assert 50_000 <= row["late_ms"] < 60_000
        assert found["computed_ms"] == pytest.approx(cluster.world.clock.now_ms(), abs=1000)
        assert (found["broker"], found["total"], found["retry_waiting_more"]) == ("broker-a", 1, False)
        cluster.broker.offsets.commit("CG", Queue("T", 0), 1)
        await renewed(cluster)
        _, (row,) = await page(one)
        assert row["behind"] == 2
        assert row["late_ms"] < 45_000

    beside(work)


def test_numbers_agree_with_the_explanation(beside):
    async def work(cluster, client_of):
        topic(cluster, queues=3)
        one = client_of("one")
        await one.join("CG")
        for number in range(7):
            await cluster.put("T", b"x", queue_id=number % 3)
        cluster.broker.offsets.commit("CG", Queue("T", 1), 1)
        cluster.broker.topics.put(TopicConfig("%DLQ%CG", 1, 1))
        await cluster.put("%RETRY%CG", b"again", queue_id=0)
        await cluster.put("T", b"later", properties={"DELAY": "3", "REAL_TOPIC": "%RETRY%CG"})
        explained, _ = await one.explain()
        _, (row,) = await page(one)
        assert row["behind"] == explained["behind"]
        assert row["late_ms"] == pytest.approx(explained["lag_ms"], abs=50)
        assert row["retry_behind"] == explained["retry"]["behind"] == 1
        assert row["retry_waiting"] == explained["retry"]["waiting"]
        assert row["dead_letters"] == explained["dead_letters"] == 0

    beside(work)


def test_a_group_that_is_read_by_clients_that_are_no_members(beside):
    async def work(cluster, client_of):
        topic(cluster)
        other, asks = client_of("other"), client_of("asks")
        for queue_id in (0, 1):
            await cluster.put("T", b"x", queue_id=queue_id)
        for group, committed in (("Read", 0), ("Left", 0), ("Done", 1)):
            cluster.broker.groups.put(GroupConfig(group))
            for queue_id in (0, 1):
                cluster.broker.offsets.commit(group, Queue("T", queue_id), committed)
        await other.pull(1, 0, group="Read")
        await other.pull(1, 1, group="Done")
        _, rows = await page(asks)
        assert {each["group"]: (each["behind"], each["read_by_others"]) for each in rows} == {
            "Done": (0, False),
            "Left": (2, False),
            "Read": (2, True),
        }
        await asks.join("Read")
        await renewed(cluster)
        _, (row,) = await page(asks, names=["Read"])
        assert (row["members"], row["read_by_others"]) == (1, False)

    beside(work)


def test_a_retry_that_waits_is_counted_for_its_group_alone(beside):
    pytest.importorskip("gantrymq_schedule")

    async def work(cluster, client_of):
        topic(cluster)
        one = client_of("one")
        await one.join("CG", "Else")
        await cluster.put("%RETRY%CG", b"x", queue_id=0, properties={"DELAY": "2"})
        assert delay_levels_of(cluster.broker.settings)
        _, rows = await page(one, sort="name")
        assert [(each["group"], each["retry_waiting"]) for each in rows] == [("CG", 1), ("Else", 0)]

    beside(work, messageDelayLevel="1m 2m")


@pytest.mark.parametrize(
    ("fields", "model"),
    [({}, "CLUSTERING"), ({"messageModel": "BROADCASTING"}, "BROADCASTING"), ({"consumeType": "CONSUME_POP"}, "POP")],
)
def test_the_model_is_that_of_the_members(beside, fields, model):
    async def work(cluster, client_of):
        topic(cluster)
        one = client_of("one")
        await one.join("CG", **fields)
        assert [each["model"] for each in (await page(one))[1]] == [model]
        await one.remoting.close()
        await renewed(cluster)
        (row,) = (await page(client_of("other")))[1]
        assert (row["members"], row["model"]) == (0, None)

    beside(work)


def test_a_group_set_to_pop_is_shown_as_such_until_the_file_changes(beside):
    async def work(cluster, client_of):
        topic(cluster)
        one = client_of("one")
        await one.join("CG")
        path = cluster.broker.root / "config" / "messageRequestMode.json"
        for text, model in (
            ('{"messageRequestModeMap":{"T":{"CG":{"mode":"POP"}}}}', "POP"),
            ('{"messageRequestModeMap":{"T":{"CG":{"mode":"PULL"}}}}', "CLUSTERING"),
            ('{"messageRequestModeMap":{"T":{"CG":{"mode":"POP"}},"U":{}}}', "POP"),
            ("[]", "CLUSTERING"),
        ):
            cluster.world.files.replace(path, text.encode())
            await renewed(cluster)
            assert [each["model"] for each in (await page(one))[1]] == [model], text
        cluster.world.files.remove(path)
        await renewed(cluster)
        assert [each["model"] for each in (await page(one))[1]] == ["CLUSTERING"]

    beside(work)


def test_groups_are_sorted_filtered_and_paged(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        for number, (name, count) in enumerate([("Alpha", 1), ("beta", 3), ("Gamma", 2), ("alpine", 0)]):
            topic(cluster, f"T{number}", 1)
            await one.join(name, topic=f"T{number}")
            for _ in range(count):
                await cluster.put(f"T{number}", b"x")
            await cluster.world.clock.sleep(1)
        assert await names(one) == ["beta", "Gamma", "Alpha", "alpine"]
        assert await names(one, sort="late") == ["Alpha", "beta", "Gamma", "alpine"]
        assert await names(one, sort="name") == ["Alpha", "Gamma", "alpine", "beta"]
        assert await names(one, contains="ALP") == ["Alpha", "alpine"]
        assert await names(one, start=1, most=2) == ["Gamma", "Alpha"]
        assert (await page(one, start=9))[0]["total"] == 4
        assert await names(one, start=9) == []
        assert "TOOLS_CONSUMER" in await names(one, system=True, most=200)

    beside(work)


def test_a_table_is_computed_once_for_all_who_ask_and_kept_for_seconds(beside, monkeypatch):
    computed = []

    async def counted(*arguments):
        computed.append(arguments)
        return await table(*arguments)

    table = group_rows.group_table
    monkeypatch.setattr("gantrymq_diagnosis.summaries.group_table", counted)

    async def work(cluster, client_of):
        one = client_of("one")
        await one.join("CG")
        await asyncio.gather(*(page(one, sort=sort) for sort in ("behind", "late", "name", "behind")))
        assert len(computed) == 1
        first = (await page(one))[0]["computed_ms"]
        await one.join("New")
        assert await names(one) == ["CG"]
        await renewed(cluster)
        found, rows = await page(one)
        assert found["computed_ms"] > first
        assert [each["group"] for each in rows] == ["CG", "New"]
        assert len(computed) == 2
        await cluster.world.clock.sleep(UNUSED_S)
        assert await names(one) == ["CG", "New"]
        assert len(computed) == 3

    beside(work)


def test_a_deleted_topic_and_group_are_gone_at_once(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        topic(cluster)
        cluster.broker.groups.put(GroupConfig("CG"))
        assert await names(one, TOPICS) == ["T"] and await names(one, sort="late") == ["CG"]
        cluster.broker.topics.delete("T")
        cluster.broker.topics.deleted("T")
        assert await names(one, TOPICS) == []
        cluster.broker.groups.delete("CG")
        cluster.broker.groups.deleted("CG")
        assert await names(one, sort="late") == [] == await names(one)

    beside(work)


def test_a_table_that_is_being_computed_during_a_deletion_is_not_kept(beside, monkeypatch):
    async def work(cluster, client_of):
        async def slow(*arguments):
            found = await table(*arguments)
            await cluster.world.clock.sleep(1.0)
            return found

        table = topic_rows.topic_table
        monkeypatch.setattr("gantrymq_diagnosis.summaries.topic_table", slow)
        one = client_of("one")
        topic(cluster)
        asking = asyncio.ensure_future(names(one, TOPICS))
        await cluster.world.clock.sleep(0.5)
        cluster.broker.topics.delete("T")
        cluster.broker.topics.deleted("T")
        assert await asking == ["T"]
        assert await names(one, TOPICS) == []

    beside(work)


def test_a_table_that_takes_long_is_kept_longer(beside, monkeypatch):
    table = group_rows.group_table

    async def slow(*arguments):
        await arguments[0].world.clock.sleep(0.4)
        return await table(*arguments)

    monkeypatch.setattr("gantrymq_diagnosis.summaries.group_table", slow)

    async def work(cluster, client_of):
        one = client_of("one")
        first = (await page(one))[0]["computed_ms"]
        await cluster.world.clock.sleep(39)
        assert (await page(one))[0]["computed_ms"] == first
        await cluster.world.clock.sleep(2)
        assert (await page(one))[0]["computed_ms"] == first  # while the next one is computed
        await cluster.world.clock.sleep(3)
        second = (await page(one))[0]["computed_ms"]
        assert second > first
        await cluster.world.clock.sleep(40 + LATE_S)
        assert (await page(one))[0]["computed_ms"] > second + 40_000  # the last one is too old

    beside(work)


def test_a_table_that_cannot_be_computed_again_is_shown_for_a_while(beside, monkeypatch):
    table, failing = group_rows.group_table, []

    async def at_times_failing(*arguments):
        if failing:
            raise OSError("no disk")
        return await table(*arguments)

    monkeypatch.setattr("gantrymq_diagnosis.summaries.group_table", at_times_failing)

    async def work(cluster, client_of):
        one = client_of("one")
        await one.join("CG")
        assert await names(one) == ["CG"]
        failing.append(True)
        await cluster.world.clock.sleep(KEPT_S)
        assert await names(one) == ["CG"]
        await cluster.world.clock.sleep(LATE_S)
        assert (await one.ask(GROUPS)).code == 1
        failing.clear()
        assert await names(one) == ["CG"]

    beside(work)


def test_a_failed_computation_is_tried_again_and_a_cancelled_request_ends_only_itself(beside, monkeypatch):
    table, failing = group_rows.group_table, [True]

    async def at_first_failing(*arguments):
        await arguments[0].world.clock.sleep(1)
        if failing.pop() if failing else False:
            raise OSError("no disk")
        return await table(*arguments)

    monkeypatch.setattr("gantrymq_diagnosis.summaries.group_table", at_first_failing)

    async def work(cluster, client_of):
        one = client_of("one")
        answer = await one.ask(GROUPS)
        assert answer.code == 1
        waiting = [asyncio.ensure_future(page(one)) for _ in range(2)]
        await cluster.world.clock.sleep(0.5)
        waiting[0].cancel()
        assert (await waiting[1])[1] == []

    beside(work)


def test_a_stopped_service_refuses_and_can_start_again(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        await one.join("CG")
        service = cluster.broker.service("diagnosis")
        await service.stop()
        for code in ROWS:
            answer = await one.ask(code)
            assert (answer.code, "stopping" in answer.remark) == (14, True)
        await service.start(cluster.broker)
        assert await names(one) == ["CG"]

    beside(work)


def test_a_computation_that_the_stop_interrupts_is_refused(beside, monkeypatch):
    async def endless(broker, watch, modes):
        await broker.world.clock.sleep(1000)

    monkeypatch.setattr("gantrymq_diagnosis.summaries.group_table", endless)

    async def work(cluster, client_of):
        one = client_of("one")
        waiting = asyncio.ensure_future(one.ask(GROUPS))
        await cluster.world.clock.sleep(1)
        await cluster.broker.service("diagnosis").stop()
        answer = await waiting
        assert (answer.code, "stopping" in answer.remark) == (14, True)

    beside(work)


@pytest.fixture
def read(monkeypatch):
    """Places of the messages whose store times were read."""
    places = []
    stored = GroupLags.stored_ms

    async def noting(lags, queue, offset):
        places.append((queue, offset))
        return await stored(lags, queue, offset)

    monkeypatch.setattr(GroupLags, "stored_ms", noting)
    return places


def test_a_message_is_read_once_while_nothing_moves(beside, read):
    async def work(cluster, client_of):
        topic(cluster, queues=2)
        one = client_of("one")
        await one.join("CG")
        for number in range(4):
            await cluster.put("T", b"x", queue_id=number % 2)
        for _ in range(3):
            await page(one, sort="late")
            await page(one)
            await renewed(cluster)
        assert sorted(read) == [(Queue("T", 0), 0), (Queue("T", 1), 0)]
        cluster.broker.offsets.commit("CG", Queue("T", 0), 1)
        await page(one)
        assert read[2:] == [(Queue("T", 0), 1)]
        read.clear()
        for _ in range(3):
            await page(one, TOPICS)
            await renewed(cluster)
        assert sorted(read) == [(Queue("T", 0), 1), (Queue("T", 1), 1)]

    beside(work)


@pytest.mark.parametrize(("code", "with_times", "without"), [(GROUPS, "late", "behind"), (TOPICS, "newest", "kept")])
def test_a_message_is_read_once_although_tables_without_times_are_made_in_between(
    beside, read, code, with_times, without
):
    async def work(cluster, client_of):
        topic(cluster, queues=2)
        one = client_of("one")
        await one.join("CG")
        for queue_id in range(2):
            await cluster.put("T", b"x", queue_id=queue_id)
        for word in (with_times, without, without, without, with_times):
            assert (await one.ask(code, None, json.dumps({"column": word}).encode())).code == 0
            await renewed(cluster)
        assert sorted(read) == [(Queue("T", 0), 0), (Queue("T", 1), 0)]

    beside(work)


def test_topics_are_shown_with_messages_rates_and_groups(beside):
    async def work(cluster, client_of):
        cluster.broker.topics.put(TopicConfig("T", 2, 1, attributes={"message.type": "NORMAL"}))
        topic(cluster, "Empty", 1)
        one = client_of("one")
        await one.join("CG")
        cluster.broker.offsets.commit("CG", Queue("T", 0), 0)
        for second in range(30):
            await cluster.put("T", b"x", queue_id=0)
            await one.pull(0, second)
            await cluster.world.clock.sleep(1)
        found, (empty, row) = await page(one, TOPICS)
        assert row["newest_ms"] == pytest.approx(cluster.world.clock.now_ms(), abs=1500)
        assert row["put_per_s"] == pytest.approx(1, abs=0.2)
        assert row["got_per_s"] == pytest.approx(1, abs=0.2)
        for name in ("newest_ms", "put_per_s", "got_per_s"):
            del row[name]
        assert row == {
            "topic": "T",
            "kind": "normal",
            "message_type": "NORMAL",
            "perm": 6,
            "read_queues": 2,
            "write_queues": 1,
            "min_sum": 0,
            "max_sum": 30,
            "kept": 30,
            "groups": 1,
        }
        assert (empty["topic"], empty["newest_ms"], empty["kept"], empty["put_per_s"]) == ("Empty", None, 0, 0.0)
        assert found["total"] == 2
        _, (group,) = await page(one)
        assert group["consumed_per_s"] == pytest.approx(1, abs=0.2)

    beside(work)


def test_topics_are_sorted_filtered_and_paged(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        for name, count in (("Alpha", 1), ("beta", 3), ("Gamma", 2)):
            topic(cluster, name, 1)
            for _ in range(count):
                await cluster.put(name, b"x")
        await one.join("CG", topic="Gamma")
        assert await names(one, TOPICS) == ["Alpha", "Gamma", "beta"]
        assert await names(one, TOPICS, sort="kept") == ["beta", "Gamma", "Alpha"]
        assert await names(one, TOPICS, sort="kept", start=1, most=1) == ["Gamma"]
        assert await names(one, TOPICS, contains="A", sort="put") == ["Alpha", "Gamma", "beta"]
        _, rows = await page(one, TOPICS, system=True, most=200)
        kinds = {each["topic"]: each["kind"] for each in rows}
        assert (kinds["%RETRY%CG"], kinds["TBW102"], kinds["Alpha"]) == ("retry", "system", "normal")

    beside(work)


def test_rows_are_returned_by_their_names(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        for name in ("A", "B", "C"):
            topic(cluster, name, 1)
            await cluster.put(name, b"x")
            await one.join(f"G{name}", topic=name)
        assert await names(one, TOPICS, names=["C", "A", "None"]) == ["A", "C"]
        assert await names(one, names=["GB"], sort="name") == ["GB"]
        (row,) = (await page(one, names=["GB"]))[1]
        assert row["late_ms"] > 0
        (row,) = (await page(one, TOPICS, names=["C"]))[1]
        assert row["newest_ms"] is not None

    beside(work)


def test_all_values_of_a_row_are_of_one_time(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        topic(cluster, "T", 1)
        (row,) = (await page(one, TOPICS, sort="kept"))[1]
        assert (row["kept"], row["newest_ms"]) == (0, None)
        await cluster.put("T", b"x")
        (row,) = (await page(one, TOPICS, names=["T"]))[1]
        assert (row["kept"], row["newest_ms"]) == (0, None)  # not the time of a message that is not counted
        await renewed(cluster)
        (row,) = (await page(one, TOPICS, names=["T"]))[1]
        first_ms = row["newest_ms"]
        assert row["kept"] == 1 and first_ms is not None
        await cluster.put("T", b"x")
        (row,) = (await page(one, TOPICS, names=["T"]))[1]
        assert (row["kept"], row["newest_ms"]) == (1, first_ms)

    beside(work)


def test_what_is_newer_than_the_table_has_a_row_by_its_name(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        topic(cluster, "Old", 1)
        assert await names(one, TOPICS) == ["Old"] and await names(one) == []
        topic(cluster, "New", 1)
        await cluster.put("New", b"x")
        await one.join("CG", topic="New")
        await cluster.world.clock.sleep(2)
        assert await names(one, TOPICS, names=["Old", "New", "%LMQ%New", "None"]) == ["New", "Old"]
        (row,) = (await page(one, TOPICS, names=["New"]))[1]
        assert row["kept"] == 1 and row["newest_ms"] is not None
        (row,) = (await page(one, names=["CG"]))[1]
        assert (row["group"], row["members"], row["behind"]) == ("CG", 1, 1) and row["late_ms"] >= 2000
        assert await names(one, TOPICS) == ["Old"]  # all others are of the table

    beside(work)


def test_a_column_has_one_value_of_every_row(beside):
    async def column(client, code, word, **wanted):
        answer = await client.ask(code, None, json.dumps({"column": word, **wanted}).encode())
        assert answer.code == 0, answer.remark
        found = json.loads(bytes(answer.payload))
        return dict(zip(found["names"], found["values"], strict=True)), found

    async def work(cluster, client_of):
        one = client_of("one")
        cluster.broker.topics.put(TopicConfig("A", 2, 2, attributes={"message.type": "FIFO"}))
        topic(cluster, "B", 1)
        for name in ("A", "B", "B"):
            await cluster.put(name, b"x")
            await cluster.world.clock.sleep(1)
        await one.join("Late", topic="A")
        await one.join("Done", topic="B")
        cluster.broker.offsets.commit("Done", Queue("B", 0), 2)
        assert (await column(one, GROUPS, "behind"))[0] == {"Late": 1, "Done": 0}
        late, found = await column(one, GROUPS, "late")
        assert late["Late"] >= 3000 and late["Done"] == 0
        assert found["total"] == 2 and found["age_ms"] < 100
        await cluster.world.clock.sleep(1)
        assert (await column(one, GROUPS, "late"))[1]["age_ms"] == pytest.approx(1000, abs=100)
        for word in ("members", "retries", "dead_letters", "rate"):
            assert set((await column(one, GROUPS, word))[0]) == {"Late", "Done"}
        assert (await column(one, GROUPS, "members", contains="late"))[0] == {"Late": 1}
        assert (await column(one, TOPICS, "type"))[0] == {"A": "FIFO", "B": ""}
        assert (await column(one, TOPICS, "kept"))[0] == {"A": 1, "B": 2}
        assert (await column(one, TOPICS, "kept", start=1, most=1))[0] == {"B": 2}
        assert (await column(one, TOPICS, "queues"))[0] == {"A": 2, "B": 1}
        assert (await column(one, TOPICS, "groups"))[0] == {"A": 0, "B": 1}
        newest = (await column(one, TOPICS, "newest"))[0]
        assert 0 < newest["A"] < newest["B"]
        for word in ("put", "got"):
            assert set((await column(one, TOPICS, word))[0]) == {"A", "B"}
        for code, wanted, remark in (
            (GROUPS, {"column": "put"}, "column=put is not one of behind, late"),
            (CONNECTIONS, {"column": "late"}, "column=late is not one of"),
            (TOPICS, {"column": "kept", "most": 5001}, "most=5001: a page has 1 to 5000 rows"),
            (TOPICS, {"most": 201}, "most=201: a page has 1 to 200 rows"),
        ):
            answer = await one.ask(code, None, json.dumps(wanted).encode())
            assert answer.code == 29 and remark in answer.remark

    beside(work)


def test_connections_are_shown_with_client_and_groups(beside):
    async def work(cluster, client_of):
        one, other, silent = client_of("one"), client_of("other"), client_of("silent")
        await one.join("CG", "Else")
        await cluster.world.clock.sleep(1)
        await other.join(*(f"G{number:02}" for number in range(30)))
        await silent.ask(CONNECTIONS)
        await renewed(cluster)
        _, (row, many) = await page(silent, CONNECTIONS)
        since = row.pop("since_ms")
        assert cluster.world.clock.now_ms() - 25_000 < since <= row.pop("heard_ms")
        assert row.pop("address").startswith("127.0.0.1:")
        assert row == {
            "client_id": "one",
            "language": "PYTHON",
            "version": 479,
            "listener": "default",
            "encrypted": False,
            "certificate": "",
            "user": "",
            "producers": [],
            "consumers": ["CG", "Else"],
            "refused": "",
            "refused_groups": [],
            "more_groups": 0,
        }
        assert (len(many["consumers"]), many["more_groups"]) == (20, 10)
        assert await names(silent, CONNECTIONS, sort="since") == ["other", "one"]
        assert await names(silent, CONNECTIONS, contains="g29") == ["other"]
        assert await names(silent, CONNECTIONS, contains="else\none") == []
        assert await names(silent, CONNECTIONS, start=1, most=1) == ["other"]
        assert (await names(silent, CONNECTIONS, system=True)).count("") >= 1
        await other.remoting.close()
        await renewed(cluster)
        assert await names(silent, CONNECTIONS) == ["one"]

    beside(work)


@pytest.mark.parametrize("code", ROWS)
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"sort": "age"}, "sort=age is not one of"),
        ({"most": 0}, "a page has 1 to 200 rows"),
        ({"most": 201}, "a page has 1 to 200 rows"),
        ({"start": -1}, "start"),
        ({"contains": []}, "contains"),
        ({"system": "perhaps"}, "system"),
    ],
)
def test_a_wrong_page_is_refused_with_a_sentence(beside, code, wanted, words):
    async def work(cluster, client_of):
        answer = await client_of("one").ask(code, None, json.dumps(wanted).encode())
        assert answer.code == 29
        assert words in answer.remark

    beside(work)


def test_the_loop_runs_between_queues(beside, monkeypatch):
    done = []

    class Counted(TimeSlices):
        async def item_done(self, items=1):
            done.extend([self] * items)
            await super().item_done(items)

    for module in (lags, topic_rows):
        monkeypatch.setattr(module, "TimeSlices", Counted)

    async def work(cluster, client_of):
        for number in range(20):
            topic(cluster, f"T{number}", 50)
            cluster.broker.offsets.commit("CG", Queue(f"T{number}", 0), 0)
        cluster.broker.groups.require("CG")
        for code in (GROUPS, TOPICS):
            done.clear()
            assert len(await names(client_of("one"), code, most=200)) >= 1
            assert len(done) >= 20 * 50

    beside(work)


def test_the_loop_runs_while_readers_of_many_queues_are_looked_for(beside, monkeypatch):
    done = []

    class Counted(TimeSlices):
        async def item_done(self, items=1):
            done.append(items)
            await super().item_done(items)

    monkeypatch.setattr(other_readers, "TimeSlices", Counted)

    async def work(cluster, client_of):
        topic(cluster, queues=500)
        await cluster.put("T", b"x", queue_id=0)
        for queue_id in range(500):
            cluster.broker.offsets.commit("CG", Queue("T", queue_id), 0)
        cluster.broker.groups.require("CG")
        _, (row,) = await page(client_of("one"))
        assert (row["behind"], row["members"], row["read_by_others"]) == (1, 0, False)
        assert len(done) >= 500

    beside(work)


def test_a_group_that_is_disabled_is_shown_as_such(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        await one.join("CG")
        config = GroupConfig("CG", consume_enable=False)
        assert (await one.ask(200, None, json.dumps(config.to_json()).encode())).code == 0
        assert [each["consume_enable"] for each in (await page(one))[1]] == [False]

    beside(work)
