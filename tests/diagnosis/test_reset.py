"""Setting a group's offsets from outside: 222, the pulls after it, and 220 to members."""

from __future__ import annotations

import pytest
from broker_desk import body_of, pull_ext

from gantrymq.loose_json import ObjectKey
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq.remoting.codes import LanguageCode


def reset_ext(timestamp=0, **fields):
    return {"topic": "T", "group": "CG", "timestamp": str(timestamp), "isForce": "true", **fields}


async def consumed(desk, count=3):
    for _ in range(count):
        await desk.send("T")
    await desk.heartbeat("CG")
    desk.tables.offsets.commit("CG", Queue("T", 0), count)


def test_the_next_pull_is_told_once_and_commits_before_it_do_not_count(broker):
    async def main(desk):
        await consumed(desk)
        held = desk.later(11, pull_ext("T", 3, wait_s=5))
        await desk.clock.sleep(1)
        body = body_of(await desk.ask(222, reset_ext()))
        assert body["offsetTable"][ObjectKey({"brokerName": "broker-a", "queueId": 0, "topic": "T"})] == 0
        late = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "commitOffset": "3"}
        assert (await desk.ask(15, late)).code == 0
        assert (await desk.ask(14, late)).ext == {"offset": "0"}
        answer = await held
        assert (answer.code, answer.remark) == (21, "OFFSET_RESET")
        assert (answer.ext["nextBeginOffset"], answer.ext["maxOffset"]) == ("0", "3")
        assert (await desk.pull("T", 0)).code == 0
        assert (await desk.ask(15, late)).code == 0
        assert (await desk.ask(14, late)).ext == {"offset": "3"}

    broker(main)


def test_one_queue_goes_to_an_offset_within_its_bounds(broker):
    async def main(desk):
        await consumed(desk)
        body = body_of(await desk.ask(222, reset_ext(-1, queueId="0", offset="1")))
        assert list(body["offsetTable"].values()) == [1]
        refused = await desk.ask(222, reset_ext(-1, queueId="0", offset="9"))
        assert (refused.code, "[0-3]" in refused.remark) == (1, True)
        assert (await desk.ask(222, reset_ext(-1, queueId="99"))).code == 29

    broker(main)


def test_time_minus_one_is_the_end(broker):
    async def main(desk):
        await consumed(desk)
        desk.tables.offsets.commit("CG", Queue("T", 0), 0)
        body = body_of(await desk.ask(222, reset_ext(-1)))
        assert [*body["offsetTable"].values()] == [3, 0, 0, 0]

    broker(main)


def test_unknown_topics_and_groups_are_refused(broker):
    async def main(desk):
        assert (await desk.ask(222, reset_ext())).code == 17
        await desk.send("T")
        assert (await desk.ask(222, reset_ext(group="Nobody"))).code == 26

    broker(main)


def test_without_server_side_resets_the_members_are_told(broker):
    async def main(desk):
        await consumed(desk)
        for queue_id in range(1, 4):
            desk.tables.offsets.commit("CG", Queue("T", queue_id), 0)
        body = body_of(await desk.ask(222, reset_ext()))
        (pushed,) = [each for each in desk.asked if each.code == 220]
        assert pushed.is_oneway
        assert pushed.ext["isForce"] == "true"
        assert body_of(pushed) == body
        assert (await desk.ask(14, {"consumerGroup": "CG", "topic": "T", "queueId": "0"})).ext == {"offset": "3"}
        await desk.ask(222, reset_ext(-1, isForce="false"), language=LanguageCode.CPP)
        table = body_of(desk.asked[-1])["offsetTable"]
        assert table[0] == {"brokerName": "broker-a", "offset": 3, "queueId": 0, "topic": "T"}

    broker(main, useServerSideResetOffset="false")


def test_without_server_side_resets_somebody_must_be_online(broker):
    async def main(desk):
        await desk.send("T")
        assert (await desk.ask(222, reset_ext())).code == 1
        for queue_id in range(4):
            desk.tables.offsets.commit("CG", Queue("T", queue_id), 0)
        assert (await desk.ask(222, reset_ext())).code == 206

    broker(main, useServerSideResetOffset="false")


def test_a_deleted_topic_takes_its_resets_along(broker):
    async def main(desk):
        await consumed(desk)
        await desk.ask(222, reset_ext())
        await desk.ask(215, {"topic": "T"})
        await desk.send("T")
        assert (await desk.pull("T")).code == 0

    broker(main)


@pytest.mark.parametrize("role", [Role.REPLICA, Role.ACTING_MASTER])
def test_a_replica_resets_nothing(broker, role):
    async def main(desk):
        await consumed(desk)
        await desk.broker.role.change(role, 1)
        answer = await desk.ask(222, reset_ext(-1))
        said = "; the master is missing now" if role is Role.ACTING_MASTER else ""
        assert (answer.code, answer.remark) == (1, "Can not reset offset in slave broker" + said)
        await desk.broker.role.change(Role.MASTER, 2)
        assert (await desk.ask(222, reset_ext(-1))).code == 0

    broker(main)


def test_a_reset_by_time_needs_a_store_that_finds_times(broker, bare_store):
    async def main(desk):
        await consumed(desk)
        answer = await desk.ask(222, reset_ext(1))
        assert (answer.code, "does not support offsets by time" in answer.remark) == (3, True)

    broker(main, plugins=[bare_store], store="bare")
