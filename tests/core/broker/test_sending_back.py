"""Failed messages sent back (36), and sends to a retry topic: retries, then dead letters."""

from __future__ import annotations

import attrs
import pytest
from broker_desk import body_of, records
from small_schedule import LEVELS_MS, SmallSchedule

from gantrymq.broker.sending.sending_back import delay_level
from gantrymq.loose_json import dumps
from gantrymq.model import properties as props
from gantrymq.model.group import GroupConfig
from gantrymq.model.ids import offset_id
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.topic import TopicConfig

RETRY, DEAD = "%RETRY%CG", "%DLQ%CG"
LONG = "9" * 19


@pytest.fixture
def schedule():
    return SmallSchedule()


@pytest.fixture
def delaying(broker, plugins, schedule):
    """``delaying(main)`` runs *main* against a broker that keeps delays."""
    with_it = attrs.evolve(plugins, interceptors=(schedule,), services=(schedule,))
    return lambda main, **values: broker(main, plugins=with_it, **values)


def text(**own):
    return "".join(f"{name}\x01{value}\x02" for name, value in own.items())


def back(desk, log_offset, level=0, group="CG", version=479, **more):
    ext = {"offset": str(log_offset), "group": group, "delayLevel": str(level), "originTopic": "T", **more}
    return desk.ask(36, ext, version=version)


async def sent(desk, **fields):
    """Send a message to T and return its record."""
    answer = await desk.send("T", **fields)
    assert answer.code == 0, answer.remark
    return records(await desk.pull("T", int(answer.ext["queueOffset"])))[0]


async def read(desk, topic):
    return records(await desk.pull(topic))


# --- the decision ---------------------------------------------------------------------------------------------------


def test_the_decision_over_all_small_numbers():
    for asked in range(-3, 20):
        for failed in range(20):
            for most in range(-1, 20):
                level = delay_level(asked, failed, most)
                if asked < 0 or failed >= most:
                    assert level is None
                else:
                    assert level == (asked if asked > 0 else 3 + failed)


def test_sixteen_tries_climb_from_level_3_to_18():
    assert [delay_level(0, failed, 16) for failed in range(17)] == [*range(3, 19), None]


# --- stored messages ------------------------------------------------------------------------------------------------


def test_a_copy_waits_in_the_schedule_topic_and_then_lies_in_the_retry_topic(delaying):
    async def main(desk):
        await desk.heartbeat("CG")
        own = text(KEYS="k", TAGS="A", WAIT="true", mine="ü")
        record = await sent(desk, body=b"\0\xff", flag=7, sys_flag=1, properties=own, born_timestamp=5)
        answer = await back(desk, record.log_offset)
        assert (answer.code, answer.remark, answer.ext or {}) == (0, None, {})
        assert not await read(desk, RETRY)
        (waiting,) = records(await desk.pull(SCHEDULE_TOPIC, queueId="2"))
        await desk.clock.sleep(LEVELS_MS[2] / 1000 + 0.1)
        (copy,) = await read(desk, RETRY)
        origin = offset_id(bytes(record.store_host), record.log_offset)
        added = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": origin, "WAIT": "false", "DELAY": "3"}
        added |= {"REAL_TOPIC": RETRY, "REAL_QID": "0"}
        for each in (waiting, copy):
            assert each.properties == {**record.properties, **added}
            assert (bytes(each.body), each.flag, each.sys_flag, each.born_timestamp) == (b"\0\xff", 7, 1, 5)
            assert (each.born_host, each.reconsume_times) == (record.born_host, 1)

    delaying(main)


def test_what_the_client_asks_for_counts_and_the_first_topic_and_id_stay(delaying, schedule):
    async def main(desk):
        await desk.heartbeat("CG")
        first = await sent(desk)
        assert (await back(desk, first.log_offset, 1)).code == 0
        await desk.clock.sleep(2)
        (second,) = await read(desk, RETRY)
        assert (await back(desk, second.log_offset, 30)).code == 0  # above the highest: the plugin uses the highest
        assert (await back(desk, second.log_offset, 0)).code == 0
        assert schedule.levels == [1, 30, 4]
        assert (await back(desk, second.log_offset, -1)).code == 0
        (dead,) = await read(desk, DEAD)
        origin = offset_id(bytes(first.store_host), first.log_offset)
        assert (dead.properties["RETRY_TOPIC"], dead.properties["ORIGIN_MESSAGE_ID"]) == ("T", origin)
        assert (dead.reconsume_times, dead.properties["DELAY"]) == (2, "0")
        assert desk.tables.stats.sent_back.total("T@CG")[0] == 4

    delaying(main)


@pytest.mark.parametrize(
    ("failure", "level", "kept"),
    [
        ("ValueError: no\x01\x02\namount", -1, "ValueError: no   amount"),
        ("ValueError", 1, None),
        ("\x02", -1, None),
        ("x" * 32_000, -1, None),  # no room
    ],
)
def test_a_dead_letter_keeps_the_failure_that_its_consumer_sends(delaying, failure, level, kept):
    async def main(desk):
        await desk.heartbeat("CG")
        record = await sent(desk, properties=text(mine="y" * 1000))
        assert (await back(desk, record.log_offset, level, failure=failure)).code == 0
        await desk.clock.sleep(2)
        (copy,) = await read(desk, DEAD if level < 0 else RETRY)
        assert (copy.properties.get("CONSUME_FAILURE"), len(copy.properties["mine"])) == (kept, 1000)

    delaying(main)


def test_sixteen_tries_and_then_a_dead_letter_on_time(delaying, schedule):
    async def main(desk):
        await desk.heartbeat("CG")
        record, client = await sent(desk), desk
        for attempt in range(17):
            assert (await back(client, record.log_offset, maxReconsumeTimes="16")).code == 0
            if attempt == 16:
                break
            await desk.clock.sleep(LEVELS_MS[attempt + 2] / 1000 - 0.5)
            client = desk.peer()  # a connection without requests for two minutes is closed
            assert not records(await client.pull(RETRY, attempt))
            await desk.clock.sleep(1)
            (record,) = records(await client.pull(RETRY, attempt))
            assert record.reconsume_times == attempt + 1
        assert schedule.levels == list(range(3, 19))
        (dead,) = await read(client, DEAD)
        assert dead.reconsume_times == 17
        topic = desk.tables.topics.get(DEAD)
        assert (topic.read_queues, topic.write_queues, topic.perm) == (1, 1, 6)

    delaying(main)


def test_a_message_with_as_many_properties_as_are_accepted_is_retried_and_dead_lettered(delaying):
    topic, group = "T" * 127, "G" * 120
    retry, dead = f"%RETRY%{group}", f"%DLQ%{group}"
    brokers = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02UNIQ_KEY\x01u\x02"

    def filled(most):
        return text(UNIQ_KEY="u", mine="x" * (most - len(brokers) - len(text(mine=""))))

    async def main(desk):
        await desk.heartbeat(group)
        refused = await desk.send(topic, properties=filled(props.MAX_SENT_BYTES + 1))
        assert (refused.code, "30868 bytes" in refused.remark) == (13, True)
        assert (await desk.send(topic, properties=filled(props.MAX_SENT_BYTES))).code == 0
        (record,) = records(await desk.pull(topic))
        assert len(record.properties_bytes) == props.MAX_SENT_BYTES
        client = desk
        for level in (18, 18, -1):
            assert (await back(client, record.log_offset, level, group)).code == 0
            await desk.clock.sleep(LEVELS_MS[-1] / 1000 + 1)
            client = desk.peer()
            (*_, record) = records(await client.pull(dead if level < 0 else retry))
            times = {"RECONSUME_TIME": str(record.reconsume_times), "MAX_RECONSUME_TIMES": "16"}
            of_the_consumer = text(MIN_OFFSET=LONG, MAX_OFFSET=LONG, CONSUME_START_TIME=LONG, **times)
            copy = record.properties_bytes.tobytes().decode() + of_the_consumer
            assert (await client.send(retry, properties=copy, reconsume_times=record.reconsume_times)).code == 0
        assert record.reconsume_times == 3
        resent = text(**{name: value for name, value in record.properties.items() if name != "DELAY"})
        assert (await client.send(topic, properties=resent)).code == 0
        first = await client.send(retry, properties=filled(props.MAX_SENT_BYTES + 1))
        assert (first.code, "30868 bytes" in first.remark) == (13, True)

    delaying(main)


@pytest.mark.parametrize(
    ("of_group", "of_client", "version", "dead"),
    [(0, None, 479, True), (1, None, 479, False), (16, "0", 479, True), (0, "1", 479, False), (16, "0", 120, False)],
)
def test_the_client_says_how_often_if_it_is_new_enough(delaying, of_group, of_client, version, dead):
    async def main(desk):
        desk.tables.groups.put(GroupConfig("CG", retry_max_times=of_group))
        more = {} if of_client is None else {"maxReconsumeTimes": of_client}
        assert (await back(desk, (await sent(desk)).log_offset, version=version, **more)).code == 0
        assert (desk.tables.topics.get(DEAD) is not None) is dead

    delaying(main)


EXPONENTIAL = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 60_000, "max": 90_000, "multiplier": 2}}
CUSTOMIZED = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [60_000, 90_000]}}


@pytest.mark.parametrize("policy", [EXPONENTIAL, CUSTOMIZED])
def test_the_retry_policy_of_a_group_is_kept_and_changes_no_delay_as_in_rocketmq(delaying, policy):
    """Source: apache/rocketmq 5.3.3: of all its code only proxy/ uses it (GrpcClientSettingsManager)."""

    async def main(desk):
        config = {"groupName": "CG", "groupRetryPolicy": policy, "consumeTimeoutMinute": 1}
        assert (await desk.ask(200, None, dumps(config))).code == 0
        shown = body_of(await desk.ask(352, {"group": "CG"}))
        assert (shown["groupRetryPolicy"], shown["consumeTimeoutMinute"]) == (policy, 1)
        record = await sent(desk)
        assert (await back(desk, record.log_offset)).code == 0
        (waiting,) = records(await desk.pull(SCHEDULE_TOPIC, queueId="2"))
        assert waiting.properties["DELAY"] == "3"

    delaying(main)


def test_a_group_without_retry_queues_keeps_nothing(broker):
    async def main(desk):
        desk.tables.groups.put(GroupConfig("CG", retry_queues=0))
        record = await sent(desk)
        end = desk.server.store.state().max_log_offset
        assert (await back(desk, record.log_offset, -1)).code == 0
        assert desk.server.store.state().max_log_offset == end

    broker(main)


def test_retries_are_spread_over_the_queues_that_are_read(delaying):
    async def main(desk):
        desk.tables.groups.put(GroupConfig("CG", retry_queues=8))
        desk.tables.topics.put(TopicConfig(RETRY, 3, 3))
        record = await sent(desk)
        for _ in range(40):
            assert (await back(desk, record.log_offset, 1)).code == 0
        waiting = records(await desk.pull(SCHEDULE_TOPIC, queueId="0"))
        assert {each.properties["REAL_QID"] for each in waiting} == {"0", "1", "2"}

    delaying(main)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_refusals_with_rocketmqs_codes(broker):
    async def main(desk):
        desk.tables.groups.put(GroupConfig("CG"))
        record = await sent(desk)
        answer = await back(desk, record.log_offset, group="nobody")
        assert answer.code == 26
        answer = await back(desk, 999_999)
        assert (answer.code, "no message starts at log offset 999999" in answer.remark) == (1, True)
        answer = await back(desk, record.log_offset)
        assert (answer.code, "pip install ./libs/store_files ./plugins/schedule" in answer.remark) == (13, True)
        desk.tables.topics.put(TopicConfig(RETRY, 1, 1, 4))
        assert (await back(desk, record.log_offset)).code == 16
        desk.tables.topics.put(TopicConfig(RETRY, 1, 1))
        desk.server.settings.set("brokerPermission", 4, "the test")
        assert (await back(desk, record.log_offset, -1)).code == 16

    broker(main, autoCreateSubscriptionGroup=False)


# --- sends to a retry topic -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "most", "tries", "dead"),
    [(479, None, 16, False), (479, None, 17, True), (479, 2, 2, False), (479, 2, 3, True), (120, 2, 3, False)],
)
def test_a_send_to_the_retry_topic_that_failed_too_often_is_a_dead_letter(broker, version, most, tries, dead):
    async def main(desk):
        await desk.heartbeat("CG")
        client = desk.peer()
        ask = client.ask
        client.ask = lambda *args, **more: ask(*args, **{**more, "version": version})
        own = text(KEYS="k", DELAY="5") if dead else text(KEYS="k")  # the delay of a dead letter is not stored
        answer = await client.send(RETRY, reconsume_times=tries, max_reconsume_times=most, properties=own)
        assert answer.code == 0, answer.remark
        (record,) = await read(desk, DEAD if dead else RETRY)
        assert (record.reconsume_times, record.properties["KEYS"]) == (tries, "k")
        assert record.properties.get("DELAY") == ("-1" if dead else None)

    broker(main)


def test_a_group_that_consumes_in_order_has_no_retries_but_dead_letters(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0}
        lock = dumps({"consumerGroup": "CG", "clientId": "c1", "mqSet": [queue]})
        assert (await desk.ask(41, None, lock)).code == 0
        assert (await desk.send(RETRY, b"ordered", reconsume_times=1)).code == 0
        assert [bytes(each.body) for each in await read(desk, DEAD)] == [b"ordered"]
        await desk.clock.sleep(60.1)  # the lock lapsed
        assert (await desk.send(RETRY, b"later", reconsume_times=1)).code == 0
        assert [bytes(each.body) for each in await read(desk, RETRY)] == [b"later"]

    broker(main)


def test_an_old_client_leaves_the_mark_of_a_half_message_on_its_retry(delaying, schedule):
    async def main(desk):
        await desk.heartbeat("CG")
        own = text(TRAN_MSG="true", DELAY="3")
        assert (await desk.send(RETRY, properties=own, reconsume_times=1)).code == 0
        assert schedule.levels == [3]
        assert (await desk.send(RETRY, properties=own, reconsume_times=0)).code == 16  # a half message

    delaying(main)
