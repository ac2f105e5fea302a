"""Signatures that are odd or forged: long ones, doubled fields, and text in another Unicode form."""

import asyncio
import base64
import hmac
import json
import struct
import unicodedata

import pytest
from plain_desk import SECRET

from gantrymq.remoting.command import decode
from gantrymq.remoting.frame import MAX_FRAME_BYTES, FrameDecoder

WRONG = "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey="
FIELDS = {
    "producerGroup": "PG",
    "topic": "Orders",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1",
    "flag": "0",
    "properties": "",
}
BODY = b"x"


def signature(fields, body=BODY, secret=SECRET):
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()


def frame_of(pairs, code=10, body=BODY):
    """A frame whose header has these fields, also repeated ones, in this order."""
    fields = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs)
    header = f'{{"code":{code},"extFields":{{{fields}}},"flag":0,"language":"JAVA","opaque":7,"version":479}}'.encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def binary_frame_of(pairs, code=10, body=BODY):
    """The same with the binary header."""
    fields = b"".join(
        struct.pack(">h", len(name.encode())) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for name, value in pairs
    )
    header = struct.pack(">hbhiii", code, 0, 479, 7, 0, 0) + struct.pack(">i", len(fields)) + fields
    return struct.pack(">II", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


class Raw:
    """One connection for frames as they are."""

    def __init__(self, desk):
        self._desk = desk

    async def ask(self, frame):
        """Return the answer; None if the broker closed the connection."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        decoder = FrameDecoder()

        class Peer(asyncio.Protocol):
            def data_received(self, data):
                for each in decoder.feed(data):
                    if not answer.done():
                        answer.set_result(decode(each))

            def connection_lost(self, error):
                if not answer.done():
                    answer.set_result(None)

        host, _, port = self._desk.cluster.broker_address.rpartition(":")
        transport, _ = await self._desk.world.network.connect(host, int(port), Peer)
        transport.write(frame)
        found = await asyncio.wait_for(answer, 60)
        transport.close()
        return found


@pytest.mark.parametrize("make", [frame_of, binary_frame_of])
def test_a_header_with_two_access_keys_never_becomes_the_user_who_did_not_sign(plain, make):
    """The broker takes one of two equal fields, for the account and for the signed text."""

    async def main(desk):
        raw = Raw(desk)
        own = {**FIELDS, "AccessKey": "writer1"}
        signed = signature(own)
        outcomes = set()
        for keys in (("operator", "writer1"), ("writer1", "operator")):
            pairs = [*FIELDS.items(), *(("AccessKey", key) for key in keys), ("Signature", signed)]
            for code in (10, 26):
                answer = await raw.ask(make(pairs, code))
                refused = answer is None or answer.code != 0
                if code == 26:  # for admins only
                    assert refused
                outcomes.add((code, refused))
        assert (26, True) in outcomes
        assert (await raw.ask(make([*own.items(), ("Signature", signed)]))).code == 0

    plain(main)


@pytest.mark.parametrize("size", [1, 27, 29, 10_000, 1_000_000, 15 * 1024 * 1024])
def test_a_signature_of_another_length_is_wrong(plain, size):
    async def main(desk):
        pairs = [*FIELDS.items(), ("AccessKey", "writer1"), ("Signature", "A" * size)]
        answer = await Raw(desk).ask(frame_of(pairs))
        assert answer is None or (answer.code != 0 and len(answer.remark) < 500)
        if size < 100_000:
            assert (answer.code, answer.remark) == (1, f"{WRONG}writer1")

    plain(main)


def test_a_frame_of_more_than_16_mb_closes_the_connection(plain):
    async def main(desk):
        pairs = [*FIELDS.items(), ("AccessKey", "writer1"), ("Signature", "A" * MAX_FRAME_BYTES)]
        assert await Raw(desk).ask(frame_of(pairs)) is None
        assert await desk.send("Orders", key="writer1") == (0, None)

    plain(main)


def test_an_access_key_of_a_megabyte_is_named_in_short(plain):
    async def main(desk):
        answer = await Raw(desk).ask(frame_of([*FIELDS.items(), ("AccessKey", "k" * 60_000), ("Signature", "A" * 28)]))
        assert answer.code == 1 and len(answer.remark) < 200
        assert answer.remark.endswith("No acl config for " + "k" * 60 + "...")

    plain(main)


@pytest.mark.parametrize("make", [frame_of, binary_frame_of])
def test_the_signed_text_is_the_one_that_was_sent_in_its_unicode_form(plain, make):
    composed = unicodedata.normalize("NFC", "KEYS\x01é\x02")
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed

    async def main(desk):
        raw = Raw(desk)
        for sent, signed in ((composed, composed), (decomposed, decomposed), (composed, decomposed)):
            fields = {**FIELDS, "properties": sent, "AccessKey": "writer1"}
            right = signature({**fields, "properties": signed})
            answer = await raw.ask(make([*fields.items(), ("Signature", right)]))
            assert (answer.code, answer.remark) == ((0, None) if sent == signed else (1, f"{WRONG}writer1"))

    plain(main)


def test_escapes_in_json_do_not_matter_to_the_signature(plain):
    async def main(desk):
        fields = {**FIELDS, "properties": "KEYS\x01😀é\x02", "AccessKey": "writer1"}
        pairs = [*fields.items(), ("Signature", signature(fields))]
        escaped = frame_of(pairs)
        assert b"\\ud83d\\ude00" in escaped
        assert (await Raw(desk).ask(escaped)).code == 0

    plain(main)


def test_a_lone_surrogate_is_no_signed_question_mark_that_does_harm(plain):
    """Java signs ``?`` for a lone surrogate; such a field is refused, or stays one text for signature and broker."""

    async def main(desk):
        fields = {**FIELDS, "topic": "Orders?", "AccessKey": "writer1"}
        right = signature(fields)
        pairs = [*{**fields, "topic": "Orders\ud800"}.items(), ("Signature", right)]
        answer = await Raw(desk).ask(frame_of(pairs))
        assert answer is None or answer.code != 0

    plain(main)


def test_no_answer_is_sent_to_a_refused_one_way_request(plain):
    async def main(desk):
        pairs = [*FIELDS.items(), ("AccessKey", "writer1"), ("Signature", "A" * 28)]
        one_way = frame_of(pairs).replace(b'"flag":0', b'"flag":2')
        asked = frame_of([("AccessKey", "writer1"), ("Signature", "A" * 28)], 30).replace(b'"opaque":7', b'"opaque":8')
        answer = await Raw(desk).ask(one_way + asked)
        assert (answer.opaque, answer.code) == (8, 1)

    plain(main)
