"""Batches of acknowledgements (200151): valid contents, and their cost."""

import base64
import tracemalloc

import pytest

from gantrymq.loose_json import dumps

ENTRY = {"c": "CG", "t": "T", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 10_000}


def bit_set(*offsets):
    bits = bytearray(max(offsets, default=0) // 8 + 1)
    for each in offsets:
        bits[each >> 3] |= 1 << (each & 7)
    return base64.b64encode(bits).decode()


async def batch(client, *entries, broker="broker-a"):
    return await client.ask(200151, None, dumps({"brokerName": broker, "acks": list(entries)}))


def test_bits_far_apart_are_acknowledged(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        messages = (await client.pop()).messages
        start, pop_time, invisible, revive, *_ = messages[0].handle.split(" ")
        entry = {**ENTRY, "so": int(start), "rq": int(revive), "pt": int(pop_time), "it": int(invisible)}
        assert (await batch(client, {**entry, "b": bit_set(0, 2, 500_000)})).code == 0
        await client.clock.sleep(30)
        assert (await client.pop()).bodies == [b"2"]

    popped(main)


def test_entries_that_claim_whole_bit_sets_cost_neither_time_nor_memory(popped, longest_step):
    full = base64.b64encode(b"\xff" * 65_536).decode()

    async def main(client):
        await client.send(b"1")
        await client.pop()
        body = dumps({"brokerName": "broker-a", "acks": [{**ENTRY, "b": full}] * 11})
        longest_step[0] = 0.0
        tracemalloc.start()
        answer = await client.ask(200151, None, body)
        assert (answer.code, "a pop delivers at most 32" in answer.remark) == (13, True)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()

    popped(main)


def test_as_many_entries_as_fit_into_a_body_are_taken_in_slices(popped, longest_step):
    async def main(client):
        await client.send(b"1")
        await client.pop()
        body = dumps({"brokerName": "broker-a", "acks": [{**ENTRY, "b": bit_set(0), "pt": i} for i in range(4000)]})
        longest_step[0] = 0.0
        assert (await client.ask(200151, None, body)).code == 0
        assert longest_step[0] < 0.1

    popped(main)


@pytest.mark.parametrize("name", ["c", "t", "so", "q", "rq", "pt", "b"])
def test_a_null_member_is_refused(popped, name):
    async def main(client):
        await client.send(b"1")
        await client.pop()
        answer = await batch(client, {**ENTRY, "b": bit_set(0), name: None})
        assert (answer.code, "is missing or null" in answer.remark) == (13, True)

    popped(main)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"so": "1_0"}, "startOffset is '1_0', a whole number"),
        ({"q": 2**31}, "queueId 2147483648 is not between -2147483648 and 2147483647"),
        ({"b": "!"}, "bitSet is not Base64"),
        ({"b": bit_set(8 * 65_536)}, "at most 524288 are taken"),
        ({"c": ["CG"]}, "consumerGroup is ['CG'], a text was expected"),
    ],
)
def test_a_member_of_the_wrong_kind_is_refused(popped, members, why):
    async def main(client):
        await client.send(b"1")
        await client.pop()
        answer = await batch(client, {**ENTRY, "b": bit_set(0), **members})
        assert (answer.code, why in answer.remark) == (13, True), answer.remark

    popped(main)


@pytest.mark.parametrize("place", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("odd", ["1_0", "+", "", "1.0", "0x1", "\u0661", " 1"])
def test_a_handle_number_that_only_python_would_read_is_refused(popped, place, odd):
    async def main(client):
        await client.send(b"1")
        message = (await client.pop()).messages[0]
        parts = message.handle.split(" ")
        parts[place] = odd
        message.handle = " ".join(parts)
        assert (await client.ack(message)).code == 13

    popped(main)


def test_an_entry_without_a_message_of_the_queue_is_taken(popped):
    async def main(client):
        await client.send(b"1")
        now_ms = client.clock.now_ms()
        answer = await batch(client, {**ENTRY, "pt": now_ms, "b": bit_set(500)})
        assert (answer.code, answer.remark) == (0, None)

    popped(main)
