"""Every request of core and of the installed plugins is refused to users without permissions, whatever way it comes."""

import asyncio

import pytest
from every_request import body, header
from raw_clients import SECRET, USERS, half, write
from token_authorizer import TokenAuthorizer

from gantrymq.broker.wire.families import FAMILIES
from gantrymq.broker.wire.send import SendRequests
from gantrymq.broker.wire.transactions import TransactionRequests
from gantrymq.client import Credentials
from gantrymq.model.ids import parse_offset_id
from gantrymq.plugins import load_plugins
from gantrymq.remoting.command import request
from gantrymq.remoting.serving import handlers_of
from gantrymq.remoting.signatures import Signer

EVERYONE = {
    46: "compiles an expression, and says nothing about the topic and group that the client names",
    905: "lets a slave ask its name servers; the content is not used",
    1008: "lets a broker ask its controllers; the content is not used",
}
LEAVES = {35: "without a group, it leaves what this connection has joined"}
BOTH = {11, 14, 15, 208, 222, 223, 303, 308, 309, 314, 321, 345, 353, 361, 400, 401, *range(200050, 200056)}
BOTH |= {200070, 200071, 200151}
ALL_OF_MINE = [
    f"{action} {resource}"
    for action in ("Pub", "Sub", "Create", "Update", "Delete", "Get")
    for resource in ("Topic:Mine", "Group:mine")
]


def served():
    """Return the codes of all requests that core and the installed plugins serve."""
    own = (handlers_of(each) for each in (SendRequests, TransactionRequests, *FAMILIES))
    return sorted({*load_plugins().handlers}.union(*own))


async def stored_place(client_of):
    """Store a message; return its offset in the log."""
    stored = await client_of("shop").send("Secret", SECRET)
    return parse_offset_id(stored.ext["msgId"])[2]


async def state_of(cluster, ops):
    """Return what requests could have changed: topics, groups, offsets, modes, settings, messages, members, locks."""
    tables = [bytes((await ops.ask(code)).payload or b"") for code in (21, 201, 43, 402, 26)]
    messages = [(await ops.ask(30, {"topic": each, "queueId": "0"})).ext for each in ("Secret", "Mine")]
    clients = cluster.broker.clients
    members = [len(clients.consumers(each)) for each in ("readers", "mine")]
    return tables, messages, members, clients.producers("readers"), cluster.broker.role.current


def test_a_user_without_permissions_is_refused(run):
    async def main(cluster, client_of):
        place = await stored_place(client_of)
        client, open_codes = client_of("nothing"), set()
        for code in served():
            fields = header(place)
            if code == 37:
                fields |= await half(client_of("shop"))
            answer = await client.ask(code, fields, body(code))
            if answer.code != 16:
                open_codes.add(code)
                assert not answer.payload
            else:
                assert "User:nothing has no permission to access" in answer.remark
        assert open_codes == EVERYONE.keys()

    run(main, recallMessageEnable=True)


@pytest.mark.parametrize("topic", ["Secret", "%RETRY%readers", ""])
@pytest.mark.parametrize("group", ["readers", ""])
def test_permissions_on_an_own_topic_and_group_open_no_others(run, topic, group):
    """A missing name must not leave out the check that belongs to it."""

    async def main(cluster, client_of):
        place = await stored_place(client_of)
        client, open_codes = client_of("mallory"), set()
        for code in served():
            fields = {name: value for name, value in header(place, topic, group).items() if value}
            if (await client.ask(code, fields, body(code, topic, group))).code == 0:
                open_codes.add(code)
        assert open_codes - EVERYONE.keys() == (set() if group else LEAVES.keys())

    with_all(run, main)


@pytest.mark.parametrize(("topic", "group"), [("Secret", "mine"), ("Mine", "readers"), ("%RETRY%readers", "mine")])
def test_requests_about_a_topic_and_a_group_need_both(run, topic, group):
    async def main(cluster, client_of):
        place = await stored_place(client_of)
        client = client_of("mallory")
        for code in sorted(BOTH & set(served())):
            fields = {name: value for name, value in header(place, topic, group).items() if value}
            answer = await client.ask(code, fields, body(code, topic, group))
            of_absent_topic = code == 200151 and answer.code == 17 and topic.startswith("%RETRY%")
            assert answer.code == 16 or of_absent_topic, (code, answer.code, answer.remark)

    with_all(run, main)


def with_all(run, main):
    """Run *main* with a mallory who may do everything with its own topic and group."""

    async def work(cluster, client_of):
        write(cluster.world, {**USERS, "mallory": {"secret": USERS["mallory"]["secret"], "allow": ALL_OF_MINE}})
        await cluster.world.clock.sleep(2)
        await main(cluster, client_of)

    run(work)


@pytest.mark.parametrize("who", ["nothing", "a wrong signature of a user who may do everything", "no account"])
def test_one_way_requests_change_nothing(run, who):
    async def main(cluster, client_of):
        place, ops = await stored_place(client_of), client_of("ops")
        before = await state_of(cluster, ops)
        client = client_of(None if who == "no account" else "nothing")
        if who.startswith("a wrong"):
            client.signer = Signer(Credentials("ops", "wrong"))
        connection = await client.client.connect(client.address)
        for code in served():
            command = request(code, header(place), body(code))
            client.signer.sign(command)
            connection.oneway(command)
        await cluster.world.clock.sleep(1)
        assert await state_of(cluster, ops) == before
        assert not connection.closed and client.pushed == []

    run(main)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("name", ["ops", "", "unknown"])
def test_requests_that_are_not_signed_rightly_are_refused(run, name, later, monkeypatch):
    """All in one write, so that they wait while the authorizer decides about the first one."""
    if later:
        monkeypatch.setattr(TokenAuthorizer, "authenticate", authenticate_later(TokenAuthorizer.authenticate))

    async def main(cluster, client_of):
        place, ops = await stored_place(client_of), client_of("ops")
        before = await state_of(cluster, ops)
        client = client_of(None)
        connection = await client.client.connect(client.address)
        commands = []
        for code in served():
            command = request(code, header(place), body(code))
            if name:
                Signer(Credentials(name, "wrong")).sign(command)
            commands.append(command)
        answers = await asyncio.gather(*(connection.call(each, 600) for each in commands))
        assert {each.code for each in answers} == {16}
        assert not any(each.payload for each in answers)
        assert await state_of(cluster, ops) == before

    run(main)


def authenticate_later(authenticate):
    """Return a method that decides after a tenth of a second."""

    async def later(self, credentials, client):
        await self._world.clock.sleep(0.1)
        return authenticate(self, credentials, client)

    return later


def test_right_requests_among_wrong_ones_are_served_alone(run, monkeypatch):
    """Each with its own user, in one write, while an authorizer that checks each request takes its time."""
    monkeypatch.setattr(TokenAuthorizer, "each_request", True, raising=False)
    monkeypatch.setattr(TokenAuthorizer, "authenticate", authenticate_later(TokenAuthorizer.authenticate))

    async def main(cluster, client_of):
        client = client_of(None)
        connection = await client.client.connect(client.address)
        signers = [
            Signer(Credentials(name, secret)) for name, secret in (("ops", "s1"), ("nothing", "s6"), ("ops", "no"))
        ]
        commands = []
        for index in range(30):
            command = request(26, {"index": str(index)})
            signers[index % 3].sign(command)
            commands.append(command)
        answers = await asyncio.gather(*(connection.call(each, 600) for each in commands))
        assert [each.code for each in answers] == 10 * [0, 16, 16]

    run(main)
