"""Our broker's push of a reply to the requesting producer (326) equals Java's for the same reply, byte for byte."""

from __future__ import annotations

import pytest
from replay_recording import recordings

from gantrymq.model.hosts import pack_host, parse_address
from gantrymq.model.properties import decode_text
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import read_send_header
from gantrymq.remoting.pushes import reply_command

reply_message = pytest.importorskip("gantrymq_request_reply.reply_message")

FRAMES = recordings()["clientops"].frames
BROKERS = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def requests(code):
    return [heard.command for heard in FRAMES if heard.command.code == code and not heard.command.is_response]


def correlation(command):
    text = (command.ext or {}).get("i") or (command.ext or {}).get("properties") or ""
    return decode_text(text).get("CORRELATION_ID")


PUSHES = requests(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)


def test_the_recording_has_two():
    assert len(PUSHES) == 2


@pytest.mark.parametrize("java", PUSHES, ids=range(len(PUSHES)))
def test_a_push_is_java_s(java):
    (reply,) = [each for each in requests(RequestCode.SEND_REPLY_MESSAGE_V2) if correlation(each) == correlation(java)]
    header = read_send_header(reply)
    hosts = [pack_host(*parse_address(java.ext[name])) for name in ("bornHost", "storeHost")]
    own = {**decode_text(header.properties), **BROKERS}
    pushed = reply_message.pushed_reply(header, own, reply.payload, *hosts, int(java.ext["storeTimestamp"]))
    ours = reply_command(pushed)
    assert ours.ext == java.ext
    assert ours.payload == java.payload
