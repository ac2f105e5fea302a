"""Acknowledgements of one read are served together, with the answers of single ones."""

import asyncio
from functools import partial

import pytest
from pop_client import send_numbered

from gantrymq.errors import PoppedMessageGone
from gantrymq_pop.ack_requests import AckRequests


@pytest.fixture
def together(monkeypatch):
    """The numbers of acknowledgements that were served at once."""
    numbers = []
    served = AckRequests.acknowledge_together

    def counted(self, requests, begin, connection):
        numbers.append(served(self, requests, begin, connection))
        return numbers[-1]

    monkeypatch.setattr(AckRequests, "acknowledge_together", counted)
    return numbers


def answers(asked):
    return [(each.code, each.remark) for each in asked]


def test_acknowledgements_of_several_pops_are_stored_and_the_rest_comes_again(popped, together):
    async def main(client):
        await send_numbered(client, 12)
        first = (await client.pop(most=6)).messages
        second = (await client.pop(most=6)).messages
        acked = await asyncio.gather(*(client.ack(each) for each in (*first, *second[:3], *second[4:])))
        assert answers(acked) == [(0, None)] * 11
        assert together == [11]
        await client.clock.sleep(30)
        assert (await client.pop()).bodies == [second[3].body]

    popped(main)


def mixed(client, messages):
    """Fields of plain acknowledgements, and of others that are refused or written unusually."""
    one, two, three, four, five, *_ = messages
    fields = client.ack_fields
    return [
        fields(one),
        fields(one),  # twice
        fields(two, offset="99"),
        fields(two, extraInfo="1 2 3"),
        fields(two, topic="none"),
        fields(two, queueId="7"),
        fields(two, extraInfo=two.handle.replace("broker-a", "broker-b")),
        fields(two, offset=""),
        {name: value for name, value in fields(two).items() if name != "extraInfo"},
        fields(two, offset="+3"),
        fields(three),
        fields(four, extraInfo=f"{four.handle} 17"),
        fields(five, queueId="00"),
    ]


def test_others_among_them_get_their_own_answers(popped, together):
    async def work(client, *, at_once):
        await send_numbered(client, 8)
        requests = mixed(client, (await client.pop(most=8)).messages)
        if at_once:
            asked = await asyncio.gather(*(client.ask(200051, each) for each in requests))
        else:
            asked = [await client.ask(200051, each) for each in requests]
        await client.clock.sleep(30)
        return answers(asked), (await client.pop()).bodies

    found = popped(partial(work, at_once=True))
    assert max(together) == 2
    assert found == popped(partial(work, at_once=False))
    assert found[1] == [b"1", b"5", b"6", b"7"]


def test_a_message_that_is_deleted_meanwhile_is_refused(popped, together, monkeypatch):
    async def main(client):
        await send_numbered(client, 4)
        messages = (await client.pop()).messages
        store = client.cluster.broker.store
        bounds = type(store).bounds
        monkeypatch.setattr(type(store), "bounds", lambda self, queue: bounds(self, queue)._replace(min_offset=2))
        codes = [code for code, _ in answers(await asyncio.gather(*(client.ack(each) for each in messages)))]
        monkeypatch.undo()
        assert codes == [PoppedMessageGone.response_code] * 2 + [0, 0]

    popped(main)
