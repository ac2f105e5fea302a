"""Questions that members answer: 307, 309, 223."""

from __future__ import annotations

import asyncio

import pytest
from long_responses import WrittenTogether

from gantrymq.loose_json import ObjectKey, dumps, loads
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.responses import MAX_AT_ONCE

INFO = {"consumerGroup": "CG", "clientId": "c1", "jstackEnable": "false"}
OFFSETS = {"topic": "T", "group": "CG"}


def answering(client, answers):
    """Let *client* answer the broker's requests by code; others stay unanswered. Return the requests."""
    asked = []

    def requests(connection, commands):
        for command in commands:
            asked.append(command)
            if command.code in answers:
                connection.reply(command, answers[command.code])

    client.requests = requests
    return asked


def body_of(answer):
    assert answer.code == 0, answer.remark
    return loads(answer.payload)


def test_a_member_is_asked_and_its_answer_passed_on(beside):
    async def work(cluster, client_of):
        member = client_of("c1")
        asked = answering(member, {307: Command(0, remark="as it said", body=b'{"properties":{}}')})
        await member.join("CG")
        answer = await client_of("tool").ask(307, INFO)
        assert (answer.code, answer.remark, bytes(answer.payload)) == (0, "as it said", b'{"properties":{}}')
        assert [each.ext for each in asked if each.code == 307] == [INFO]

    beside(work)


def test_offline_members_cannot_be_queried(beside):
    async def work(cluster, client_of):
        tool = client_of("tool")
        answer = await tool.ask(307, INFO)
        assert (answer.code, answer.remark) == (1, "The Consumer <CG> <c1> not online")
        await client_of("other").join("CG")
        assert (await tool.ask(307, INFO)).code == 1

    beside(work)


def test_a_member_that_is_silent_or_leaves_is_reported(beside):
    async def work(cluster, client_of):
        member, tool = client_of("c1"), client_of("tool")
        await member.join("CG")
        answer = await tool.ask(307, INFO)
        assert (answer.code, "Timeout" in answer.remark) == (207, True)
        leaving = asyncio.ensure_future(tool.ask(307, INFO))
        await cluster.world.clock.sleep(1)
        await member.remoting.close()
        assert (await leaving).code == 1

    beside(work)


@pytest.mark.parametrize(("code", "ext"), [(307, INFO), (309, INFO), (223, OFFSETS)])
def test_a_stop_waits_for_no_member(beside, code, ext):
    async def work(cluster, client_of):
        member, tool = client_of("c1"), client_of("tool")
        await member.join("CG")
        waiting = asyncio.ensure_future(tool.ask(code, ext))
        await cluster.world.clock.sleep(1)
        begun = cluster.world.clock.monotonic()
        stopping = asyncio.ensure_future(cluster.server.stop())
        answer = await waiting
        assert (answer.code, "is stopping" in answer.remark) == (14, True)
        assert cluster.world.clock.monotonic() - begun < 1
        await stopping
        assert cluster.world.clock.monotonic() - begun < 4

    beside(work)


def test_a_stored_message_is_handed_to_a_member(beside):
    async def work(cluster, client_of):
        member = client_of("c1")
        asked = answering(member, {309: Command(0, body=b'{"consumeResult":"CR_SUCCESS"}')})
        sent = await cluster.send("T", b"again")
        await member.join("CG")
        ext = {"consumerGroup": "CG", "clientId": "c1", "msgId": sent.offset_id, "topic": "T"}
        answer = await client_of("tool").ask(309, ext)
        assert body_of(answer) == {"consumeResult": "CR_SUCCESS"}
        (question,) = [each for each in asked if each.code == 309]
        assert b"again" in bytes(question.payload)
        named = {key: question.ext[key] for key in ("brokerName", "topicSysFlag", "groupSysFlag")}
        assert named == {"brokerName": "broker-a", "topicSysFlag": "0", "groupSysFlag": "0"}

    beside(work)


def test_a_message_id_must_be_one_and_lead_somewhere(beside):
    async def work(cluster, client_of):
        member = client_of("c1")
        await member.join("CG")
        ext = {"consumerGroup": "CG", "clientId": "c1"}
        assert (await member.ask(309, {**ext, "msgId": "short"})).code == 29
        assert (await member.ask(309, {**ext, "msgId": "0A00000100002A9F" + "00" * 8})).code == 1

    beside(work)


def test_offsets_of_members_by_client_id(beside):
    async def work(cluster, client_of):
        member, other, tool = client_of("c1"), client_of("c2"), client_of("tool")
        queue = ObjectKey({"brokerName": "broker-a", "queueId": 0, "topic": "T"})
        answering(member, {221: Command(0, body=dumps({"messageQueueTable": {queue: 7}}))})
        asked = answering(other, {221: Command(1, remark="no")})
        await member.join("CG")
        await other.join("CG")
        assert body_of(await tool.ask(223, OFFSETS)) == {"consumerTable": {"c1": {queue: 7}}, "messageQueueTable": {}}
        assert body_of(await tool.ask(223, {**OFFSETS, "clientAddr": "c2"}))["consumerTable"] == {}
        assert (await tool.ask(223, {**OFFSETS, "group": "Nobody"})).code == 1
        assert [each.code for each in asked if each.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT]

    beside(work)


def test_an_answer_that_is_no_json_is_refused(beside):
    async def work(cluster, client_of):
        member = client_of("c1")
        answering(member, {221: Command(0, body=b"{oops")})
        await member.join("CG")
        answer = await client_of("tool").ask(223, OFFSETS)
        assert (answer.code, "not JSON" in answer.remark) == (1, True)

    beside(work)


def test_members_are_asked_together_and_the_silent_are_left_out(beside):
    async def work(cluster, client_of):
        member = client_of("c1")
        answering(member, {221: Command(0, body=dumps({"messageQueueTable": {}}))})
        await member.join("CG")
        for number in range(3):
            await client_of(f"silent{number}").join("CG")
        begun = cluster.world.clock.monotonic()
        answer = await client_of("tool").ask(223, OFFSETS)
        assert body_of(answer)["consumerTable"] == {"c1": {}}
        assert 5 <= cluster.world.clock.monotonic() - begun < 6

    beside(work)


def test_a_few_long_responses_about_members_and_clients_are_written_at_once(beside, monkeypatch):
    async def work(cluster, client_of):
        member, tool = client_of("c1"), client_of("tool")
        queues = [ObjectKey({"brokerName": "broker-a", "queueId": n, "topic": "T"}) for n in range(500)]
        answering(member, {221: Command(0, body=dumps({"messageQueueTable": dict.fromkeys(queues, 7)}))})
        await member.join(*(f"CG{n}" for n in range(200)), "CG")
        written = WrittenTogether(monkeypatch, cluster.world.clock)
        asked = [tool.ask(223, OFFSETS) for _ in range(2 * MAX_AT_ONCE)]
        asked += [tool.ask(300, {"topic": "T"}) for _ in range(2 * MAX_AT_ONCE)]
        answers = await asyncio.gather(*asked)
        assert len(body_of(answers[0])["consumerTable"]["c1"]) == 500
        assert len(body_of(answers[-1])["groupList"]) == 201
        assert written.most == MAX_AT_ONCE

    beside(work)
