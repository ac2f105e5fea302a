"""Questions that members answer: 307, 309, 223."""

from __future__ import annotations

from broker_desk import body_of

from gantrymq.loose_json import ObjectKey, dumps
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

INFO = {"consumerGroup": "CG", "clientId": "c1", "jstackEnable": "false"}


def answering(desk, answers):
    """Let the desk's connection answer what the broker asks, by request code; others stay unanswered."""
    keep = desk.requests

    def requests(connection, commands):
        keep(connection, commands)
        for command in commands:
            if command.code in answers:
                connection.reply(command, answers[command.code])

    desk.requests = requests


def test_a_member_is_asked_and_its_answer_passed_on(broker):
    async def main(desk):
        answering(desk, {307: Command(0, remark="as it said", body=b'{"properties":{}}')})
        await desk.heartbeat("CG")
        tool = desk.peer()
        answer = await tool.ask(307, INFO)
        assert (answer.code, answer.remark, bytes(answer.payload)) == (0, "as it said", b'{"properties":{}}')
        (asked,) = [each for each in desk.asked if each.code == 307]
        assert asked.ext == INFO

    broker(main)


def test_who_is_not_online_cannot_be_asked(broker):
    async def main(desk):
        answer = await desk.ask(307, INFO)
        assert (answer.code, answer.remark) == (1, "The Consumer <CG> <c1> not online")
        await desk.heartbeat("CG", client_id="other")
        assert (await desk.ask(307, INFO)).code == 1

    broker(main)


def test_a_member_that_is_silent_or_leaves_is_reported(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        tool = desk.peer()
        answer = await tool.ask(307, INFO)
        assert (answer.code, "Timeout" in answer.remark) == (207, True)
        leaving = tool.later(307, INFO)
        await desk.clock.sleep(1)
        await desk.client.close()
        assert (await leaving).code == 1

    broker(main)


def test_a_stored_message_is_handed_to_a_member(broker):
    async def main(desk):
        answering(desk, {309: Command(0, body=b'{"consumeResult":"CR_SUCCESS"}')})
        sent = await desk.send("T", b"again")
        await desk.heartbeat("CG")
        ext = {"consumerGroup": "CG", "clientId": "c1", "msgId": sent.ext["msgId"], "topic": "T"}
        answer = await desk.peer().ask(309, ext)
        assert body_of(answer) == {"consumeResult": "CR_SUCCESS"}
        (asked,) = [each for each in desk.asked if each.code == 309]
        assert b"again" in bytes(asked.payload)
        assert (asked.ext["brokerName"], asked.ext["topicSysFlag"], asked.ext["groupSysFlag"]) == ("broker-a", "0", "0")

    broker(main)


def test_a_message_id_must_be_one_and_lead_somewhere(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        ext = {"consumerGroup": "CG", "clientId": "c1"}
        assert (await desk.ask(309, {**ext, "msgId": "short"})).code == 29
        assert (await desk.ask(309, {**ext, "msgId": "0A00000100002A9F" + "00" * 8})).code == 1

    broker(main)


def test_offsets_of_members_by_client_id(broker):
    async def main(desk):
        queue = ObjectKey({"brokerName": "broker-a", "queueId": 0, "topic": "T"})
        answering(desk, {221: Command(0, body=dumps({"messageQueueTable": {queue: 7}}))})
        await desk.heartbeat("CG")
        other = desk.peer()
        answering(other, {221: Command(1, remark="no")})
        await other.heartbeat("CG", client_id="c2")
        tool = desk.peer()
        ext = {"topic": "T", "group": "CG"}
        assert body_of(await tool.ask(223, ext)) == {"consumerTable": {"c1": {queue: 7}}, "messageQueueTable": {}}
        assert body_of(await tool.ask(223, {**ext, "clientAddr": "c2"}))["consumerTable"] == {}
        assert (await tool.ask(223, {**ext, "group": "Nobody"})).code == 1
        assert [each.code for each in other.asked if each.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT]

    broker(main)


def test_an_answer_that_is_no_json_is_refused(broker):
    async def main(desk):
        answering(desk, {221: Command(0, body=b"{oops")})
        await desk.heartbeat("CG")
        answer = await desk.peer().ask(223, {"topic": "T", "group": "CG"})
        assert (answer.code, "not JSON" in answer.remark) == (1, True)

    broker(main)


def test_members_are_asked_together_and_the_silent_are_left_out(broker):
    async def main(desk):
        answering(desk, {221: Command(0, body=dumps({"messageQueueTable": {}}))})
        await desk.heartbeat("CG")
        for number in range(3):
            await desk.peer().heartbeat("CG", client_id=f"silent{number}")
        tool = desk.peer()
        begun = desk.clock.monotonic()
        answer = await tool.ask(223, {"topic": "T", "group": "CG"})
        assert (answer.code, body_of(answer)["consumerTable"]) == (0, {"c1": {}})
        assert 5 <= desk.clock.monotonic() - begun < 6

    broker(main)
