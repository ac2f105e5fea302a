"""Requests about offsets: 14, 15, 29, 30, 31, 32, 43."""

from __future__ import annotations

from broker_desk import START_MS, body_of, records

from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig


def offset_ext(topic="T", group="CG", **fields):
    return {"consumerGroup": group, "topic": topic, "queueId": "0", **fields}


def test_a_new_group_starts_at_zero_of_a_queue_that_has_its_first_message(broker):
    async def main(desk):
        await desk.send("T")
        answer = await desk.ask(14, offset_ext())
        assert (answer.code, answer.ext) == (0, {"offset": "0"})

    broker(main)


def test_a_new_group_has_no_offset_on_an_empty_queue(broker):
    async def main(desk):
        assert (await desk.ask(14, offset_ext())).code == 22

    broker(main)


def test_a_new_group_that_wants_no_zero_is_told_so(broker):
    async def main(desk):
        await desk.send("T")
        assert (await desk.ask(14, offset_ext(setZeroIfNotFound="false"))).code == 22

    broker(main)


def test_a_committed_offset_is_found_again_lower_ones_too(broker):
    async def main(desk):
        for _ in range(7):
            await desk.send("T")
        await desk.heartbeat("CG")
        for offset in ("7", "3"):
            assert (await desk.ask(15, offset_ext(commitOffset=offset))).code == 0
            assert (await desk.ask(14, offset_ext())).ext == {"offset": offset}

    broker(main)


def test_a_commit_needs_its_group_then_its_topic(broker):
    async def main(desk):
        assert (await desk.ask(15, offset_ext(commitOffset="1"))).code == 26
        await desk.heartbeat("CG")
        assert (await desk.ask(15, offset_ext(commitOffset="1"))).code == 17
        assert (await desk.ask(14, offset_ext())).code == 22

    broker(main)


def test_a_commit_without_an_offset_is_refused(broker):
    async def main(desk):
        answer = await desk.ask(15, offset_ext())
        assert answer.code != 0
        assert "commitOffset" in answer.remark

    broker(main)


def test_bounds_and_times_of_a_queue(broker):
    async def main(desk):
        ext = {"topic": "T", "queueId": "0"}
        assert (await desk.ask(30, ext)).ext == {"offset": "0"}
        assert (await desk.ask(31, ext)).ext == {"offset": "0"}
        assert (await desk.ask(32, ext)).ext == {"timestamp": "-1"}
        for _ in range(3):
            await desk.send("T")
            await desk.clock.sleep(10)
        assert (await desk.ask(30, ext)).ext == {"offset": "3"}
        first = int((await desk.ask(32, ext)).ext["timestamp"])
        assert START_MS <= first < START_MS + 1000
        for time_ms, edge, offset in (
            (first - 1, "LOWER", "0"),
            (first + 1, "LOWER", "1"),
            (first + 1, "upper", "0"),
            (first + 60_000, "LOWER", "3"),
            (first + 60_000, "UPPER", "2"),
        ):
            answer = await desk.ask(29, {**ext, "timestamp": str(time_ms), "boundaryType": edge})
            assert (answer.code, answer.ext) == (0, {"offset": offset}), (time_ms - first, edge)
        assert (await desk.ask(29, {**ext, "timestamp": "1", "boundaryType": "MIDDLE"})).code == 29

    broker(main)


def test_all_offsets_are_told_as_their_file_holds_them(broker):
    async def main(desk):
        empty = body_of(await desk.ask(43))
        assert {**empty, "dataVersion": None} == {"dataVersion": None, "groupTopicMap": {}, "offsetTable": {}}
        await desk.send("T")
        await desk.heartbeat("CG")
        await desk.ask(15, offset_ext(commitOffset="1"))
        full = body_of(await desk.ask(43))
        assert full["offsetTable"] == {"T@CG": {0: 1}}
        assert full["groupTopicMap"] == {"CG": ["T"]}

    broker(main)


def test_commits_to_queues_that_a_topic_does_not_have_are_refused(broker):
    async def main(desk):
        await desk.send("T")  # a topic of 4 queues
        await desk.heartbeat("CG")
        for queue_id in ("-5", "4", "2147483647"):
            answer = await desk.ask(15, offset_ext(queueId=queue_id, commitOffset="0"))
            assert answer.code == 29
            assert answer.remark == f"queueId {queue_id} is outside topic T, with 4 queues; nothing was committed"
        assert "T@CG" not in desk.tables.offsets.table
        assert (await desk.ask(15, offset_ext(commitOffset="1"))).code == 0
        assert desk.tables.offsets.table["T@CG"] == {0: 1}

    broker(main)


def test_a_commit_of_what_was_never_there_is_refused_and_changes_nothing(broker):
    async def main(desk):
        for _ in range(3):
            await desk.send("T")
        await desk.heartbeat("CG")
        assert (await desk.ask(15, offset_ext(commitOffset="2"))).code == 0
        for offset in ("-1", "4", "1000000"):
            answer = await desk.ask(15, offset_ext(commitOffset=offset))
            assert answer.code == 29
            assert f"commits {offset} in queue T/0, but the queue has offsets from 0 to its end at 3" in answer.remark
        pulled = await desk.pull("T", sysFlag="5", commitOffset="1000000")
        assert pulled.code == 0  # it sends its next offset with the pull; its commit is left out
        assert (await desk.ask(14, offset_ext())).ext == {"offset": "2"}
        assert (await desk.ask(15, offset_ext(queueId="1", commitOffset="1"))).code == 29  # an empty queue
        assert desk.tables.offsets.table["T@CG"] == {0: 2}

    broker(main)


def test_an_empty_batch_queue_is_told_to_begin_at_minus_one(broker):
    async def main(desk):
        desk.tables.topics.batch_queues_problem = ""  # as with a store that has them
        desk.tables.topics.put(TopicConfig("B", attributes={"queue.type": "BatchCQ"}))
        assert (await desk.ask(31, {"topic": "B", "queueId": "0"})).ext == {"offset": "-1"}
        assert (await desk.pull("B")).ext["minOffset"] == "-1"
        await desk.heartbeat("CG")
        desk.tables.offsets.commit("CG", Queue("B", 0), 0)
        desk.tables.offsets.reset("CG", Queue("B", 0), 0)
        reset = await desk.pull("B")
        assert (reset.remark, reset.ext["minOffset"]) == ("OFFSET_RESET", "-1")

    broker(main)


def test_a_topic_made_anew_is_read_from_its_beginning_by_those_who_knew_the_old_one(broker):
    """Java 5.3.3 moves them to the end of the new queue, so messages before their first pull are skipped."""

    async def main(desk):
        for _ in range(3):
            await desk.send("T")
        await desk.heartbeat("CG")
        desk.tables.offsets.commit("CG", Queue("T", 0), 3)
        for _ in range(3):
            await desk.send("T")
        await desk.pull("T", 2)
        await desk.ask(215, {"topic": "T"})
        for body in (b"n0", b"n1", b"n2", b"n3", b"n4", b"n5"):
            await desk.send("T", body)
        assert (
            await desk.ask(15, {"consumerGroup": "CG", "topic": "T", "queueId": "0", "commitOffset": "4"})
        ).code == 0
        answer = await desk.pull("T", 5)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (21, "0")
        answer = await desk.pull("T", 0)
        assert [bytes(record.body) for record in records(answer)] == [b"n0", b"n1", b"n2", b"n3", b"n4", b"n5"]
        assert desk.tables.offsets.table.get("T@CG") is None  # the old one's commit was left out

    broker(main)
