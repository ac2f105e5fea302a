import pytest
from one_frame import split_frame

from gantrymq.errors import LocalProtocolError
from gantrymq.model.ids import offset_id
from gantrymq.remoting.codes import FLAG_ONEWAY
from gantrymq.remoting.command import Command, decode, encode
from gantrymq.remoting.frame import MAX_FRAME_BYTES, FrameDecoder
from gantrymq.remoting.headers.pull import PullMessageResponse, QueryMessageResponse
from gantrymq.remoting.headers.send import SendMessageResponse
from gantrymq.remoting.responses import SendResponses, encode_pull_head, encode_query_head
from gantrymq.remoting.sends import SendCommand


def sent(opaque, unique_id, flag=0):
    return SendCommand(Command(310, opaque=opaque, flag=flag, body=b"body"), b"{}", b"", 3, 0, unique_id.encode())


@pytest.mark.parametrize("host", [b"\x7f\0\0\x01\0\0*\x9f", bytes(range(20))], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("region", ["DefaultRegion", "100% mine", "%d%016X%%d%", "<d>"])
def test_send_answer_is_what_the_encoder_would_write(host, region):
    answers = SendResponses(host, region, False)
    for opaque, unique_id in [(-7, "7F00000104D2"), (2**31 - 1, "U"), (0, "7F00000104D2" * 3)]:
        data = answers.frames([sent(opaque, unique_id)], [(None, 2**40, 2**41 + 5, 0, 0, "")])
        command = decode(split_frame(data))
        assert encode(command) == data
        assert (command.code, command.flag, command.opaque, command.serialize) == (0, 1, opaque, 0)
        assert SendMessageResponse.from_ext(command.ext) == SendMessageResponse(
            msg_id=offset_id(host, 2**41 + 5),
            queue_id=3,
            queue_offset=2**40,
            transaction_id=unique_id,
            msg_region=region,
            trace_on=False,
        )


def test_a_oneway_send_gets_no_answer():
    answers = SendResponses(b"\x7f\0\0\x01\0\0*\x9f", "R", True)
    sends = [sent(1, "A"), sent(2, "B", FLAG_ONEWAY), sent(3, "C")]
    frames = FrameDecoder().feed(answers.frames(sends, [(None, n, 100 * n, 0, 0, "") for n in range(3)]))
    assert [decode(frame).opaque for frame in frames] == [1, 3]
    assert [decode(frame).ext["queueOffset"] for frame in frames] == ["0", "2"]
    assert answers.frames(sends[1:2], [(None, 1, 1, 0, 0, "")]) == b""


@pytest.mark.parametrize("serialize", [0, 1])
def test_pull_head_counts_a_body_that_follows(serialize):
    head = encode_pull_head(serialize, 9, 0, "100% FOUND", 6, 1, 2**40, 3, topic_sys_flag=1)
    command = decode(split_frame(head + b"abc"))
    assert encode(command) == head + b"abc"
    assert (command.code, command.remark, command.body) == (0, "100% FOUND", b"abc")
    assert PullMessageResponse.from_ext(command.ext) == PullMessageResponse(
        next_begin_offset=6, min_offset=1, max_offset=2**40, topic_sys_flag=1, group_sys_flag=0
    )


@pytest.mark.parametrize("serialize", [0, 1])
def test_query_head_is_what_the_encoder_would_write(serialize):
    head = encode_query_head(serialize, 9, 1_700_000_000_000, 2**40, 3)
    command = decode(split_frame(head + b"abc"))
    assert encode(command) == head + b"abc"
    assert (command.code, command.opaque, command.flag, command.remark, command.body) == (0, 9, 1, None, b"abc")
    assert QueryMessageResponse.from_ext(command.ext) == QueryMessageResponse(
        index_last_update_timestamp=1_700_000_000_000, index_last_update_phyoffset=2**40
    )


@pytest.mark.parametrize("serialize", [0, 1])
def test_query_head_over_the_limit(serialize):
    with pytest.raises(LocalProtocolError):
        encode_query_head(serialize, 9, 0, 0, MAX_FRAME_BYTES)


def test_pull_head_over_the_limit():
    with pytest.raises(LocalProtocolError):
        encode_pull_head(0, 9, 0, "FOUND", 6, 1, 6, MAX_FRAME_BYTES)
