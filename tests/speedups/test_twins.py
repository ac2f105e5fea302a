"""Comparison of compiled functions with their Python versions on seeded random input, unusual values included."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import itertools
import json
import random
import struct
import sys
from types import MappingProxyType, SimpleNamespace

import pytest

from gantrymq import speedups
from gantrymq.broker.wire import send_templates
from gantrymq.client.calls import decoding
from gantrymq.client.message import Message
from gantrymq.client.sending import encoded_message, send_requests
from gantrymq.config import Setting, Settings
from gantrymq.errors import RemoteProtocolError, RequestRefused
from gantrymq.formats import batch_body as batch_body_module
from gantrymq.formats.record import encode_record
from gantrymq.interfaces import DispatchEntry, MessageBatch, QueueTargets, StoreContext, StoreMessage
from gantrymq.model import ids, properties
from gantrymq.model.sys_flag import (
    BORN_HOST_V6,
    COMPRESSED,
    INNER_BATCH,
    NEED_UNWRAP,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from gantrymq.remoting import frame as frames_module
from gantrymq.remoting import sends as sends_module
from gantrymq.remoting.codes import FLAG_ONEWAY
from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import Frame
from gantrymq.remoting.headers import base as headers_module
from gantrymq.remoting.headers.base import fields_of
from gantrymq.remoting.headers.offsets import GetMaxOffsetRequest
from gantrymq.remoting.headers.pull import PullMessageRequest
from gantrymq.remoting.headers.send import SendMessageResponse
from gantrymq.remoting.responses import SendResponses
from gantrymq.remoting.sends import SendCommand
from gantrymq.remoting.signatures import SignedRequest
from gantrymq.world.real import real_world
from gantrymq_storage_mmap.log import append as appender
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_store_files import check, index_hash, index_table, plain_entries
from gantrymq_store_files.index import IndexHeader, IndexLayout
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_files.record_crc import crc_tail
from gantrymq_testing.store_contract_bench import StandingClock

if speedups.compiled is None:
    pytest.skip(f"nothing to compare: {speedups.description}", allow_module_level=True)

SEEDS = range(20)
STORE_HOST = b"\x7f\0\0\1\0\0\x2a\x9f"


# --- frames -----------------------------------------------------------------------------------------------------------


def stream(rng):
    data = b""
    for _ in range(rng.randrange(6)):
        header, body = rng.randbytes(rng.randrange(40)), rng.randbytes(rng.choice((0, 0, 1, 300)))
        data += struct.pack(">II", 4 + len(header) + len(body), rng.randrange(3) << 24 | len(header)) + header + body
    if rng.random() < 0.3 and data:
        at = rng.randrange(len(data))
        data = data[:at] + rng.randbytes(1) + data[at + 1 :]
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_are_cut_alike(seed):
    rng = random.Random(seed)
    for _ in range(300):
        data, limit = stream(rng), rng.choice((8, 60, 1 << 24))
        found, expected = frames_module.cut_frames(data, limit), frames_module._cut_frames(data, limit)
        assert found == expected
        assert [type(each) for each in found[0]] == [Frame] * len(found[0])


# --- headers ----------------------------------------------------------------------------------------------------------


NO_SENDS = (b"", b"{}", b"[]", b'{"code":310}', b'{"code":310,"extFields":null}', b'{"code":310,"extFields":{}}')


def one_of(rng, usual, *odd):
    return rng.choice(odd) if rng.random() < 0.03 else usual


def send_fields(rng):
    """The values of one send, now and then an odd one among them."""
    more = (
        "",
        "TAGS\x01A\x02",
        "KEYS\x01k 北\x02",
        'a\x01"e":"5\\\x02',
        "\x7fé\U0001f600\x01/\x02",
        "UNIQ_KEY\x02",
        "UNIQ_KEY\x01",
    )
    unique = one_of(rng, f"7F00000104D2{rng.randrange(1 << 40):X}", "", "a-b", "é", "A" * 300, "a\x01b", "٣")
    properties = f"{rng.choice(more)}UNIQ_KEY\x01{unique}{rng.choice(('', chr(2), chr(2) + 'WAIT' + chr(1) + 'true'))}"
    fields = {
        "a": "PG",
        "b": f"T{rng.randrange(3)}",
        "c": one_of(rng, "TBW102", "", "\ud800", "тема", "\0"),
        "d": "4",
        "e": one_of(rng, str(rng.randrange(8)), "0", "17", "1023", "1024", "03", "-1", "", "٣", 3, 3.0, None, True, {}),
        "f": "0",
        "g": one_of(rng, str(1_700_000_000_000 + rng.randrange(9999)), "007", "0", "9" * 18, "9" * 19, "x", 5, "٣"),
        "h": one_of(rng, "0", 0, None, False, [], {"e": "1"}),
        "i": one_of(rng, properties, properties, 7, None, ""),
        "j": "0",
        "k": "false",
        "m": "false",
    }
    if rng.random() < 0.3:
        fields["AccessKey"] = rng.choice("AB")
        signature = base64.b64encode(rng.randbytes(20)).decode()
        fields["Signature"] = one_of(rng, signature, signature, signature, "", "no base64!", "a\x01", 5, None, {})
    if rng.random() < 0.1:
        fields[rng.choice(("l", "n", "queueId", "properties", "x", "é", '"', "e "))] = rng.choice(("", "b", "\x1f"))
    return fields


def answer_fields(rng):
    """Return random ext fields of a send response, unusual values included."""
    return {
        "msgId": one_of(rng, f"7F000001{rng.randrange(1 << 60):024X}", "", "a,b"),
        "queueId": one_of(rng, str(rng.randrange(8)), "-1", "+3", "", "0" * 12, "1234567890", "٣", 3),
        "queueOffset": one_of(rng, str(rng.randrange(1 << 40)), "9" * 18, "9" * 19, "9" * 30, "x", ""),
        "MSG_REGION": one_of(rng, "DefaultRegion", "", "région", "\x01", "\ud800", None),
        "TRACE_ON": one_of(rng, "true", "false", "TRUE", "", "true\0", True),
        **({"transactionId": "ID"} if rng.random() < 0.5 else {}),
    }


def spelled(rng, pairs):
    """A JSON object of names and values that are encoded already, sometimes with blanks or a duplicate member."""
    pairs = list(pairs)
    if pairs and rng.random() < 0.03:
        pairs.insert(rng.randrange(len(pairs) + 1), rng.choice(pairs))
    blank = one_of(rng, "", " ", "\n\t\r ", "\x0b")
    return "{" + f"{blank},{blank}".join(f"{name}{blank}:{blank}{value}" for name, value in pairs) + blank + "}"


def text(rng, value):
    """JSON of a value, in one of the ways in which it can be written."""
    written = json.dumps(value, ensure_ascii=rng.random() < 0.5, separators=(",", ":"))
    if rng.random() < 0.003 and isinstance(value, str) and value:
        at = rng.randrange(len(value))
        parts = [json.dumps(part)[1:-1] for part in (value[:at], value[at + 1 :])]
        written = f'"{parts[0]}\\u{ord(value[at]) & 0xFFFF:04x}{parts[1]}"'
    return written


def header(rng):
    """The header of a send as one of many clients may write it, or of an answer; sometimes a damaged one."""
    if rng.random() < 0.02:
        return rng.choice(NO_SENDS)
    code = one_of(rng, 310, 310, 320, 11, "310", 310.0, -310)
    fields = send_fields(rng)
    if rng.random() < 0.3:
        code, fields = one_of(rng, rng.choice((0, 0, 10, 11)), 0.0, None, 1 << 70), answer_fields(rng)
    elif rng.random() < 0.1:
        code = 10
        names = {"a": "producerGroup", "b": "topic", "e": "queueId", "g": "bornTimestamp", "i": "properties"}
        fields = {names.get(name, name): value for name, value in fields.items()}
    members = {
        "code": code,
        "extFields": None,
        "flag": rng.choice((0, 0, 0, one_of(rng, 2, 1, 1 << 40, 1 << 63, 1 << 80, -2, "0", None))),
        "language": one_of(rng, rng.choice(("JAVA", "GO", "CPP")), "java", "", 0, None, "KLINGON"),
        "opaque": one_of(rng, rng.randrange(1 << 20), 2147483647, 2147483648, -1, 0, "1", 1 << 80, None),
        "serializeTypeCurrentRPC": "JSON",
        "version": one_of(rng, 479, 513, 1 << 70, "479", True),
    }
    if rng.random() < 0.1:
        members["remark"] = rng.choice((None, "", "r", "\\", "\n", "é", 1, True))
    if rng.random() < 0.03:
        members[rng.choice(("x", "code ", "é"))] = rng.choice((1.5, [1], {"code": 1}, "x", None, "\ud83d\ude00"))
    pairs, inner = list(members.items()), list(fields.items())
    if rng.random() < 0.2:
        rng.shuffle(pairs)
        rng.shuffle(inner)
    ext = spelled(rng, ((text(rng, name), text(rng, value)) for name, value in inner))
    whole = spelled(
        rng,
        (
            (text(rng, name), ext if value is None and name == "extFields" else text(rng, value))
            for name, value in pairs
        ),
    )
    data = whole.encode("utf-8", "surrogatepass") + b" " * 4096 * (rng.random() < 0.01)
    if rng.random() < 0.05:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice((b"", rng.randbytes(1), b'"', b"\\", b"\xff", data[at:] + b"}")) + data[at + 1 :]
    return data


def all_of(frames):
    """Return the result of `decode_all`, continuing after frames that cannot be decoded, and the errors."""
    found = []
    while frames:
        commands = []
        try:
            sends_module.decode_all(frames, commands)
        except RemoteProtocolError as error:
            found += [*commands, str(error)]
            frames = frames[len(commands) + 1 :]
        else:
            found += commands
            frames = []
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_headers_say_the_same(seed, monkeypatch):
    rng = random.Random(seed)
    reads = []
    for _ in range(150):
        headers = [header(rng) for _ in range(rng.randrange(9))]
        for n in range(len(headers) - 1):
            if rng.random() < 0.5:  # similar to its neighbour, except perhaps for a digit
                headers[n + 1] = bytes(
                    rng.choice(b"0123456789") if 48 <= c < 58 and rng.random() < 0.03 else c for c in headers[n]
                )
        reads.append([Frame(rng.choice((0,) * 19 + (1,)), each, rng.choice((None, b"body"))) for each in headers])
    kinds, sent, left, others = {}, 0, 0, 0
    for frames in reads:
        found, plain = all_of(frames), []
        sends_module._read_plain(frames, 0, plain)
        others += sum(type(each) is Command for each in plain)
        with monkeypatch.context() as patch:
            patch.setattr(sends_module, "_read_plain", None)
            expected = all_of(frames)
        assert found == expected
        assert [type(each) for each in found] == [type(each) for each in expected]
        for own, other in zip(found, expected, strict=True):
            if type(own) is Command:
                assert own.ext is other.ext is None or list(own.ext.items()) == list(other.ext.items())
            if type(own) is SendCommand:
                sent += 1
                left += own.alike.startswith(b"[")
                names = ("queue_id", "born_timestamp", "unique_id", "header")
                assert [getattr(own, name) for name in names] == [getattr(other, name) for name in names]
                assert list(own.ext.items()) == list(other.ext.items())
                assert kinds.setdefault(own.alike, other.alike) == other.alike  # alike there, alike here
    assert sent > 200
    assert left < sent / 2
    assert others > 15


HEADERS = (SendMessageResponse, PullMessageRequest, GetMaxOffsetRequest)
ODD_FIELDS = ("", "True", "-5", "+5", " 5", "\u0663", "\ud800", "true\0", "9" * 30)


def field_text(rng, kind):
    number = rng.randrange(1 << rng.choice((1, 9, 30, 40) if kind == "int64" else (1, 9, 29)))
    return one_of(rng, {"string": "T", "boolean": rng.choice(("true", "false"))}.get(kind, str(number)), *ODD_FIELDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_fields_are_read_alike(seed):
    rng = random.Random(seed)
    plain = 0
    for _ in range(500):
        cls = rng.choice(HEADERS)
        fields = fields_of(cls)
        ext = {each.wire: field_text(rng, each.kind) for each in fields if each.required or rng.random() < 0.7}
        if rng.random() < 0.1:
            ext.pop(rng.choice(list(ext)))
        given = rng.choice((ext, ext, ext, MappingProxyType(ext), None))
        found, expected = (
            read_or_refused(read, cls, given) for read in (headers_module.read_fields, headers_module._read_fields)
        )
        assert found == expected
        assert type(found) is type(expected)
        plain += headers_module._fill_header(cls.__new__(cls), fields, ext)
    assert plain > 250


@pytest.mark.parametrize("seed", SEEDS)
def test_headers_of_sends_are_written_alike(seed):
    rng = random.Random(seed)
    odd = ("", "é", "\x00", "\x1f", "\x7f", '"', "\\", "/", "\u2028", "\U0001f600", "%d%b", "a\x01b", "v" * 300)
    plain = 0
    for _ in range(300):
        names = (one_of(rng, rng.choice(("WAIT", "TAGS", "UNIQ_KEY", "k e y")), *odd) for _ in range(rng.randrange(6)))
        given = (
            tuple(rng.randbytes(rng.randrange(40)) for _ in range(4)),
            rng.choice((0, -1, rng.randrange(1 << 41), (1 << 63) - 1, -1 << 63)),
            {name: one_of(rng, f"{rng.randrange(1 << 60):X}", *odd) for name in names},
            rng.choice((0, -1, rng.randrange(1 << 31))),
        )
        found = send_requests._write_plain(*given)
        assert found in (None, send_requests._write(*given))
        plain += found is not None
    assert plain > 150
    assert send_requests._write_plain(given[0], 0, {"a": "\ud800"}, 0) is None


def read_or_refused(read, cls, ext):
    try:
        return read(cls, fields_of(cls), ext, None)
    except RequestRefused as problem:
        return str(problem)


# --- signatures -------------------------------------------------------------------------------------------------------

SECRETS = [b"old secret", b"secret"]
SIGNED_BODY = b'{"extFields":{"Signature":"%s"}}' % base64.b64encode(hmac.digest(b"secret", b"body", "sha1"))
ODD_NAMES = (
    "_UNIQUE_KEY_QUERY",
    "SecurityToken",
    "Signature",
    "Signaturf",
    "S",
    "é",
    "\U0001f600",
    "\uffff",
    "a",
    "z",
    "",
)
ODD_VALUES = (
    "",
    "é",
    "\x00\x1f",
    '"/\\',
    "\b\f\n\r\t",
    "\ud800",
    "\U0001f600",
    0,
    7,
    10**17,
    -1,
    -0.0,
    2.5,
    True,
    None,
)


def signed_header(rng, body, version):
    """Return the header of a send; usually with a valid signature."""
    fields = send_fields(rng)
    fields.pop("Signature", None)
    for name in rng.sample(ODD_NAMES, rng.randrange(4)):
        fields[name] = rng.choice(ODD_VALUES) if rng.random() < 0.5 else "value"
    pairs = list(fields.items())
    rng.shuffle(pairs)
    asked = Command(310, ext=known_as(dict(pairs)), version=version, body=body)
    signature = base64.b64encode(hmac.digest(rng.choice(SECRETS), SignedRequest(asked).signed_content(), "sha1"))
    pairs.insert(
        rng.randrange(len(pairs) + 1), ("Signature", one_of(rng, signature.decode(), "", "é", "AAAA", 5, None))
    )
    if rng.random() < 0.05:
        pairs.pop(rng.randrange(len(pairs)))
    ext = spelled(rng, ((text(rng, name), text(rng, value)) for name, value in pairs))
    members = {"code": 310, "language": "JAVA", "version": version, "opaque": 1, "flag": 0}
    whole = [*((text(rng, name), text(rng, value)) for name, value in members.items()), ('"extFields"', ext)]
    rng.shuffle(whole)
    return spelled(rng, whole).encode("utf-8", "surrogatepass")


def known_as(fields):
    """Return fields as `decode` does."""
    members = {"code": 310, "language": "JAVA", "version": 1, "opaque": 1, "flag": 0, "extFields": fields}
    return decode(Frame(0, json.dumps(members).encode("utf-8", "surrogatepass"), None)).ext


@pytest.mark.parametrize("seed", SEEDS)
def test_signatures_of_sends_are_checked_alike(seed, monkeypatch):
    rng = random.Random(seed)
    plain = signed = 0
    for _ in range(300):
        body, version = rng.choice((None, b"", b"body", rng.randbytes(300))), rng.choice((399, 400, 513))
        header = signed_header(rng, body, version)
        if rng.random() < 0.1 and body:
            body += b"!"
        try:
            command = decode(Frame(0, header, body))
        except RemoteProtocolError:
            assert sends_module._read_signed(header, body, version <= 399) is None
            continue
        content = SignedRequest(command).signed_content()
        found = sends_module._read_signed(header, body, version <= 399)
        if found is not None:
            assert found == (SignedRequest(command).signature, content)
            plain += 1
        send = SendCommand(command, header, b"", 0, 0, b"")
        verdict = sends_module.is_signed(send, SECRETS)
        signed += verdict
        with monkeypatch.context() as patch:
            patch.setattr(sends_module, "_read_signed", None)
            assert sends_module.is_signed(send, SECRETS) == verdict
    assert plain > 100
    assert 100 < signed < 300


@pytest.mark.parametrize(
    "fields",
    [
        '"a":"1","a":"1","Signature":"x"',
        '"a":"1","Signature":"x","Signature":"x"',
        '"a":"1"',
        '"a":"1","Signature":5',
        '"a":"1","Signature":"\\u0001"',
        '"a":-1,"Signature":"x"',
        '"a":null,"Signature":"x"',
        '"a":"\\ud800","Signature":"x"',
        '"\\n":"1","Signature":"x"',
        ",".join([f'"{number}":"x"' for number in range(65)]) + ',"Signature":"x"',
        '"a":"' + "x" * 8192 + '","Signature":"x"',
    ],
)
def test_what_a_signature_covers_is_left_to_python_if_it_is_unusual(fields):
    header = f'{{"code":310,"extFields":{{{fields}}}}}'.encode()
    assert sends_module._read_signed(header, b"body", False) is None
    assert sends_module._read_signed(header.replace(b'{"code":310,', b'{"extFields":{},'), b"body", False) is None


def test_a_check_of_a_signature_that_fails_makes_no_messages():
    send = sent(b"one", 1, 0, 0, b"ID", b"body", header=SIGNED_BODY)
    given = ([send], 0, 4, b"", b"", "T", 0, 0, 0, STORE_HOST, STORE_HOST, 0, True)
    for secrets in (["no bytes"], 5):
        with pytest.raises(TypeError):
            send_templates.make_messages(*given, secrets, messages := [])
        assert messages == []


# --- messages ---------------------------------------------------------------------------------------------------------


def sent(alike, opaque, queue_id, born_timestamp, unique_id, body, flag=0, header=b"{}"):
    command = Command(310, opaque=opaque, flag=flag, body=body)
    return SendCommand(command, header, alike, queue_id, born_timestamp, unique_id)


def fields(message):
    return [getattr(message, name) for name in StoreMessage.__slots__]


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_are_made_alike(seed):
    rng = random.Random(seed)
    kinds = [b"one", b"other"]
    for _ in range(100):
        asked = [
            Command(310)
            if rng.random() < 0.1
            else sent(
                kinds[rng.random() < 0.1],
                *(rng.randrange(1 << 31), rng.randrange(6), rng.randrange(1 << 40), b"ID%d" % rng.randrange(99)),
                rng.choice((b"x", b"yy", b"zzz", None)) if rng.random() < 0.2 else b"body",
                header=rng.choice((b"{}", SIGNED_BODY)) if rng.random() < 0.2 else SIGNED_BODY,
            )
            for _ in range(rng.randrange(9))
        ]
        start = rng.randrange(len(asked) + 1)
        given = (asked, start, rng.choice((4, 5, 6)), b"before", b"after", "T", -5, 1, 2, b"born", b"store", 3, True)
        given += (rng.choice((None, SECRETS, [], [b"another"])),)
        found, expected = [object()], [object()]
        send_templates.make_messages(*given, found)
        send_templates._make_messages(*given, expected)
        assert [type(each) for each in found[1:]] == [StoreMessage] * (len(expected) - 1)
        assert list(map(fields, found[1:])) == list(map(fields, expected[1:]))


# --- records ----------------------------------------------------------------------------------------------------------


def message(rng):
    odd = rng.random()
    body = rng.randbytes(rng.choice((0, 1, 100, 900)))
    text = properties.encode({"UNIQ_KEY": f"{rng.randrange(1 << 60):X}", "TAGS": rng.choice("AB")})
    made = StoreMessage(f"T{rng.randrange(3)}", rng.randrange(3), body, text, tags_code=rng.randrange(-9, 9))
    made.born_timestamp, made.store_host = rng.randrange(1 << 41), STORE_HOST
    made.flag, made.reconsume_times = rng.randrange(-5, 5), rng.randrange(3)
    if odd < 0.35:
        name, value = rng.choice(
            [
                ("body", memoryview(body)),
                ("body", bytes(9000)),
                ("properties", b"a\x01\xc3\xa9\x02"),
                ("properties", b"a\x01\0\x02"),
                ("properties", b"a\x01" + b"x" * 40_000 + b"\x02"),
                ("sys_flag", BORN_HOST_V6),
                ("sys_flag", INNER_BATCH),
                ("sys_flag", TRANSACTION_PREPARED),
                ("sys_flag", TRANSACTION_ROLLBACK),
                ("sys_flag", 1 << 40),
                ("born_host", bytes(20)),
                ("born_timestamp", 1 << 70),
                ("prepared_offset", -(1 << 63)),
                ("tags_code", 1 << 63),
                ("queue_id", -1),
                ("queue_id", True),
                ("topic", "t" * 300),
                ("topic", "tä"),
                ("same_file_as_previous", True),
                ("queue_targets", QueueTargets(light=("L",))),
            ]
        )
        setattr(made, name, value)
    return made


def stored(folder, batches):
    """Results, log, queues and entries of a store that got these batches."""

    async def run():
        world = real_world()
        clock = StandingClock(world.clock)
        world = SimpleNamespace(**{name: getattr(world, name) for name in dir(world) if not name.startswith("__")})
        world.clock = clock
        settings = Settings([*SCHEMA, Setting("maxMessageSize", "number", 2000, "declared by the broker")])
        settings.set("mappedFileSizeCommitLog", 65536, "test")
        settings.set("mappedFileSizeConsumeQueue", 2000, "test")
        store = MmapStore(StoreContext(world, folder, settings, lambda _: None))
        await store.start()
        results, entries = [], []
        for batch in batches:
            clock.now += 1
            results += store.put(batch)
            entries += store.publish(store.state().max_log_offset)
        bounds = {queue: store.bounds(queue) for queue in store.queues()}
        await store.stop()
        await world.workers.close()
        return results, entries, bounds

    found = asyncio.run(run())
    files = {path.name: path.read_bytes() for path in sorted((folder / "commitlog").iterdir())}
    queues = {path.relative_to(folder): path.read_bytes() for path in sorted(folder.glob("consumequeue/*/*/*"))}
    return *found, files, queues


@pytest.mark.parametrize("same_file_as_previous", [0, 0.7])
@pytest.mark.parametrize("seed", SEEDS)
def test_records_are_written_alike(seed, same_file_as_previous, tmp_path, monkeypatch):
    rng = random.Random(seed)
    batches = [[message(rng) for _ in range(rng.randrange(1, 12))] for _ in range(60)]
    for each in itertools.chain.from_iterable(batches):
        each.same_file_as_previous = each.same_file_as_previous or rng.random() < same_file_as_previous
    found = stored(tmp_path / "compiled", batches)
    monkeypatch.setattr(appender, "encode_records", None)
    expected = stored(tmp_path / "python", batches)
    for own, other in zip(found, expected, strict=True):
        assert own == other
    assert len(found[3]) > 1
    assert {type(each) for each in found[1]} == {DispatchEntry}


def test_records_that_are_joined_are_written_in_one_file_or_left_to_python():
    encode = speedups.compiled.RecordEncoder(
        *(StoreMessage, SimpleQueue, DispatchEntry, appender.PutResult, None, lambda body: 0, 1000, 0)
    )
    size = 90 + len(b"body") + len(b"\x01T")
    messages = [StoreMessage("T", 0, b"body", b"", store_host=STORE_HOST) for _ in range(6)]
    for number in (1, 4, 5):
        messages[number].same_file_as_previous = True

    def written(limit, start=0):
        results = []
        data = encode(messages, start, {("T", 0): SimpleQueue()}, 0, limit, 5, 100, [], [], [], results)
        return len(data) // size, len(results)

    assert [written(limit * size) for limit in range(7)] == [(number, number) for number in (0, 0, 2, 3, 3, 3, 6)]
    assert [written(9 * size, start) for start in range(6)] == [(number, number) for number in (6, 0, 4, 3, 0, 0)]
    messages[5].properties = "text"
    assert written(9 * size) == (3, 3)


def test_a_record_that_cannot_be_made_leaves_its_queues_as_they_were():
    queue = SimpleQueue()
    calls = []

    def crc32(body):
        calls.append(body)
        if len(calls) == 3:
            raise MemoryError
        return 0

    encode = speedups.compiled.RecordEncoder(
        *(StoreMessage, SimpleQueue, DispatchEntry, appender.PutResult, None, crc32, 1000, 0)
    )
    messages = [StoreMessage("T", 0, b"body", b"", store_host=STORE_HOST) for _ in range(4)]
    with pytest.raises(MemoryError):
        encode(messages, 0, {("T", 0): queue}, 0, 10_000, 5, 100, [], [], [], [])
    assert (len(calls), queue.next_offset) == (3, 7)


# --- batches ----------------------------------------------------------------------------------------------------------


def batch_text(rng):
    tags = rng.choice((b"", b"TAGS\x01A\x02", b"TAGS\x01A\x02TAGS\x01Bb\x02"))
    text = tags + f"UNIQ_KEY\x01{rng.randrange(1 << 60):X}\x02".encode()
    if rng.random() < 0.1:
        text = rng.choice((b"", b"UNIQ_KEY\x01A", b"TAGS\x01\x02", b"TAGS\x01", b"a", b"DELAYS\x011\x02", b"\x02\x02"))
    if rng.random() < 0.02:
        odd = (b"a\x01\xc3\xa9\x02", b"a\x01\0\x02", b"DELAY\x011\x02", b"b\x011\x02DELAY\x01", b"a\x01" + b"x" * 990)
        text = rng.choice(odd)
    return text


def batch_body(rng):
    """The body of a batch, now and then damaged."""
    entries = [
        batch_body_module.BatchEntry(
            rng.randrange(-3, 3), rng.randbytes(rng.choice((0, 1, 63, 100, 900))), batch_text(rng)
        )
        for _ in range(rng.randrange(1, 12))
    ]
    body = batch_body_module.encode_batch(entries)
    if rng.random() < 0.2:
        at = rng.randrange(len(body))
        body = rng.choice(
            (body[:at], body[:at] + rng.randbytes(1) + body[at + 1 :], body + rng.randbytes(rng.randrange(30)))
        )
    return rng.choice((bytes, memoryview))(body)


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_of_batches_are_plain_alike(seed):
    rng = random.Random(seed)
    counts = set()
    for _ in range(300):
        body, most, room = batch_body(rng), rng.choice((5, 100)), rng.choice((1000, 100, 20, 0, -5))
        names = rng.choice(((), (b"DELAY", b"OTHER")))
        found = batch_body_module.plain_entries(body, most, room, names)
        assert found == batch_body_module._plain_entries(body, most, room, names)
        counts.add(found)
    assert len(counts) > 4


@pytest.mark.parametrize("seed", SEEDS)
def test_properties_of_entries_are_searched_alike(seed):
    rng = random.Random(seed)
    found = set()
    for _ in range(500):
        pieces = (b"\x01", b"\x02", b"\x02", b"A", b"AB", b"TAGS\x01", b"A\x01x", b"\x02A\x01")
        texts = [b"".join(rng.choices(pieces, k=rng.randrange(8))) for _ in range(rng.randrange(1, 4))]
        body = batch_body_module.encode_batch(batch_body_module.BatchEntry(0, b"", text) for text in texts)
        given = body, 9, 100, rng.choice(((), (b"A",), (b"AB", b"TAG"), (b"",), (b"B", b"A", b"ABC")))
        found.add(batch_body_module.plain_entries(*given))
        assert batch_body_module.plain_entries(*given) == batch_body_module._plain_entries(*given)
    assert found == {0, 1, 2, 3}


def plain_batch(rng):
    body = b""
    while not (count := batch_body_module.plain_entries(body, 100, 1000, ())):
        body = batch_body(rng)
    made = MessageBatch(
        *(count, f"T{rng.randrange(3)}", rng.randrange(3), body, rng.choice((b"", b"WAIT\x01true\x02"))),
        *(rng.choice((None, None, 7)), rng.choice((0, COMPRESSED)), rng.randrange(1 << 41), STORE_HOST, STORE_HOST),
        *(rng.randrange(3), True),
    )
    if rng.random() < 0.2:
        odd = [("born_host", bytes(20)), ("sys_flag", TRANSACTION_PREPARED), ("queue_id", -1), ("topic", "tä")]
        odd += [("tags_code", 1 << 63), ("added_properties", b"a\x01\xc3\xa9\x02"), ("born_timestamp", 1 << 70)]
        setattr(made, *rng.choice(odd))
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_records_of_batches_are_written_alike(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    batches = [plain_batch(rng) if rng.random() < 0.7 else [message(rng)] for _ in range(80)]
    written = []
    encode_batch = appender.encode_batch
    monkeypatch.setattr(appender, "encode_batch", lambda *args: written.append(encode_batch(*args)) or written[-1])
    found = stored(tmp_path / "compiled", batches)
    assert len([each for each in written if each]) > 10
    monkeypatch.setattr(appender, "encode_batch", None)
    monkeypatch.setattr(appender, "encode_records", None)
    for own, other in zip(found, stored(tmp_path / "python", batches), strict=True):
        assert own == other
    listed = [list(each) for each in batches]
    for own, other in zip(found, stored(tmp_path / "listed", listed), strict=True):
        assert own == other
    assert len(found[3]) > 1


def test_a_batch_that_does_not_fit_changes_nothing():
    batch = MessageBatch(
        *(1, "T", 0, batch_body_module.encode_batch([batch_body_module.BatchEntry(0, b"body", b"")]), b"", None, 0, 5),
        *(STORE_HOST, STORE_HOST, 0, True),
    )
    queue, size = ConsumeQueue(None, "T", 0), 90 + len(b"body") + len(b"\x01T")
    for known, limit in (({("T", 0): queue}, size - 1), ({("T", 0): queue}, -1), ({}, size), ({("T", 0): None}, size)):
        lists = [], [], [], []
        assert appender.encode_batch(batch, known, 0, limit, 5, 100, *lists) == b""
        assert (lists, queue.next_offset) == (([], [], [], []), 0)
    assert appender.encode_batch([], {}, 0, size, 5, 100, [], [], [], []) == b""
    assert appender.encode_batch(batch, {("T", 0): queue}, 0, size, 5, 3, [], [], [], []) == b""
    assert len(appender.encode_batch(batch, {("T", 0): queue}, 0, size, 5, 4, [], [], [], [])) == size
    assert queue.next_offset == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_offset_ids_are_joined_alike(seed):
    rng = random.Random(seed)
    results = [(None, 0, rng.choice((0, rng.randrange(1 << 40), (1 << 63) - 1))) for _ in range(rng.randrange(5))]
    assert ids.join_offset_ids("7F", results) == ids._join_offset_ids("7F", results)


@pytest.mark.parametrize("results", [[()], [(0, 0, "1")], [(0, 0, -1)], [[0, 0, 1]]])
def test_offset_ids_need_results(results):
    with pytest.raises(ValueError, match="no log offset"):
        ids.join_offset_ids("7F", results)


def sent_message(rng):
    made = Message(rng.choice(("T", "".join(("T",)))), b"x" * rng.choice((1, 100)), wait_stored=True)
    made.tags, made.keys = rng.choice((None, "", "A", "тег")), rng.choice((None, "", "k1 k2", "ключ"))
    made.flag = rng.randrange(-5, 5)
    if rng.random() < 0.04:
        odd = [
            ("topic", "U"),
            ("topic", 5),
            ("body", bytearray(b"a")),
            ("body", b""),
            ("tags", "a\x01"),
            ("keys", ("a",)),
        ]
        odd += [("keys", "\x02"), ("tags", "\ud800"), ("keys", "k" * 33_000), ("wait_stored", False), ("flag", True)]
        odd += [
            ("delay_level", 1),
            ("delay_ms", 0),
            ("deliver_at_ms", 0),
            ("properties", {"a": "b"}),
            ("flag", 1 << 31),
        ]
        odd += [
            ("system_properties", {"a": "b"}),
            ("properties", MappingProxyType({})),
            ("wait_stored", 1),
            ("tags", 0),
        ]
        setattr(made, *rng.choice(odd))
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_of_batches_are_encoded_alike(seed):
    rng = random.Random(seed)
    made = 0
    for _ in range(200):
        messages = rng.choice((list, tuple))(sent_message(rng) for _ in range(rng.randrange(12)))
        where = "7F" * rng.choice((0, 12)), rng.randrange(1 << 32), rng.randrange(1 << 16), rng.choice((90, 1 << 20))
        found = encoded_message.encode_plain(messages, *where)
        assert found == encoded_message._encode_plain(messages, *where)
        made += found is not None
    assert made > 50
    for other in ("no", iter(()), [None], [Message("T", b"a"), None]):
        assert encoded_message.encode_plain(other, "", 0, 0, 100) is None
    assert encoded_message.encode_plain([Message("T", b"a")] * 65536, "", 0, 0, 1 << 30) is None


class SimpleQueue:
    __slots__ = ("magic", "named", "next_offset")

    def __init__(self):
        self.magic, self.named, self.next_offset = 0xDAA320A7, b"\x01T", 7


# --- index ------------------------------------------------------------------------------------------------------------


def entry(rng):
    keys = rng.choice(("", "", "k1", "k1 k2  k3", " ", "ключ", "x" * 300, "\ud800"))
    names = {
        "UNIQ_KEY": rng.choice((f"{rng.randrange(1 << 100):X}", "", "é")),
        "KEYS": keys,
        "TAGS": "A",
        "MYKEYS": "no",
    }
    order = rng.sample(sorted(names), rng.randrange(5))
    text = b"".join(f"{name}\x01{names[name]}\x02".encode("utf-8", "surrogatepass") for name in order)
    text += rng.choice((b"", b"", b"", b"KEYS\x01last", b"UNIQ_KEY\x01", b"\xff\x01\xfe\x02", b"KEYS\x01\xff\x02"))
    flag = rng.choice((0, 0, 0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))
    topic = rng.choice(("T", "TopicTest", "тема", "%RETRY%g"))
    return DispatchEntry(topic, 0, 0, rng.randrange(1 << 40), 100, 0, rng.randrange(1 << 41), flag, 0, text)


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_are_hashed_alike(seed):
    rng = random.Random(seed)
    for _ in range(50):
        entries = [entry(rng) for _ in range(rng.randrange(12))]
        assert index_hash.hash_entries(entries) == index_hash._hash_entries(entries)


@pytest.mark.parametrize("seed", SEEDS)
def test_index_entries_are_made_alike(seed, monkeypatch):
    rng = random.Random(seed)
    layout = IndexLayout(7, 60)
    compiled, python = (index_table.IndexTable(layout, IndexHeader()) for _ in range(2))
    monkeypatch.setattr(index_table, "PAGE_SLOTS", 2)
    now = 1_700_000_000_000
    while not compiled.full:
        count = rng.randrange(6)
        now += rng.choice((0, 1, 999, 5000, -2000, 1 << 45))
        hashes = [rng.choice((0, 2**31 - 1, rng.randrange(20))) for _ in range(count)]
        offsets, times = [rng.randrange(1 << 50) for _ in hashes], [now + n for n in range(count)]
        given = (hashes, offsets, times, rng.randrange(count + 1))
        found = compiled.put(*given)
        with monkeypatch.context() as patch:
            patch.setattr(index_table, "put_entries", index_table._put_entries)
            expected = python.put(*given)
        assert found == expected
        if rng.random() < 0.2:
            compiled.undo(found)
            python.undo(expected)
        assert compiled.header == python.header
        assert compiled.dirty_pages == python.dirty_pages
        assert compiled.slot_bytes(0, 7) == python.slot_bytes(0, 7)


# --- the log's records ------------------------------------------------------------------------------------------------


def log_piece(rng, log_offset):
    """Consecutive records, sometimes one that is not plain, or damaged."""
    data = bytearray()
    for n in range(rng.randrange(1, 30)):
        odd = rng.random() < 0.05
        text = rng.choice((b"", b"TAGS\x01A\x02", b"KEYS\x01k\x02TAGS\x01" + b"B" * rng.randrange(1, 300)))
        if odd:
            text = rng.choice(
                [
                    *(b"TAGS\x01A\x02TAGS\x01\x02", b"TAGS\x01\xd1\x8f\x02", b"a\x01\0\x02", b"\x02TAGS\x01", b"TAGS"),
                    *(
                        crc_tail(b""),
                        b"x" * 300 + crc_tail(b"x"),
                        b"__CRC32#\x01" + b"x" * 11,
                        b"a\x01b\x02TAGS\x01C\x01\x01",
                    ),
                ]
            )
        data += encode_record(
            topic=rng.choice(
                ("T", "TopicTest", "T" * 127, *(("", "a\0", "тема", "t" * 128, "SCHEDULE_TOPIC_XXXX") * odd))
            ),
            queue_id=rng.randrange(-2, 9),
            body=rng.randbytes(rng.choice((0, 1, 15, 64, 100, rng.randrange(2000), 20_000))),
            properties=text,
            queue_offset=rng.randrange(-1, 1 << 62),
            log_offset=log_offset + len(data) + (odd and rng.random() < 0.2),
            store_timestamp=rng.randrange(-5, 1 << 62),
            store_host=bytes(20 if odd and rng.random() < 0.2 else 8),
            sys_flag=rng.randrange(-(1 << 31), 1 << 31) & ~0x30 if n % 3 else 0,
            prepared_offset=rng.choice((0, -1, 1 << 60)),
        )
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        at = rng.randrange(len(data))
        data[at] = rng.choice((0, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
    return bytes(data)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_records_of_entries_are_taken_alike(seed):
    rng = random.Random(seed)
    for _ in range(40):
        start, offset = rng.randrange(1 << 40), rng.randrange(1 << 40)
        data, entries = bytearray(rng.randbytes(rng.randrange(50))), bytearray()
        for n in range(rng.randrange(1, 12)):
            odd = rng.random() < 0.05
            record = encode_record(
                topic="T" * (200 if odd and rng.random() < 0.3 else 9),
                queue_id=1,
                body=rng.randbytes(rng.choice((0, 1, 15, 100, 3000, 20_000))),
                properties=rng.choice((b"", b"TAGS\x01A\x02", *((b"a\0b", b"\xd1\x8f", b"\x7f" * 30_000) * odd))),
                queue_offset=offset + n + (odd and rng.random() < 0.2),
                log_offset=start + len(data) + (odd and rng.random() < 0.2),
                store_host=bytes(20 if odd and rng.random() < 0.2 else 8),
            )
            entries += ENTRY.pack(start + len(data), len(record) - (odd and rng.random() < 0.2), rng.randrange(99))
            data += record + rng.randbytes(rng.choice((0, 0, 40)))
        for changed in rng.choice(([], [], [data], [entries], [data, entries])):
            at = rng.randrange(len(changed))
            changed[at] = rng.choice((0, changed[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        cut = bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data) + 1)))])
        for index in (0, rng.randrange(len(entries) // 20 + 2)):
            for topic in (b"T" * 9, b"T" * 200, b""):
                given = (cut, start + rng.choice((0, 0, 0, 1, -1)), bytes(entries), index, offset + index, topic)
                assert check.sound_records(*given) == check._sound_records(*given)


def entries_of(read, *given):
    """Return the result of *read* for the records, and the topics found."""
    topics = {b"TopicTest": "TopicTest"}
    return read(*given, topics), topics


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_of_the_log_are_read_alike(seed):
    rng = random.Random(seed)
    read = 0
    for _ in range(60):
        front = rng.randbytes(rng.choice((0, 0, 7)))
        log_offset = rng.choice((0, 5, 1 << 40))
        data = front + log_piece(rng, log_offset)
        data = data[: rng.choice((len(data), len(data), rng.randrange(len(data) + 1)))]
        end = rng.choice((1 << 62, log_offset + rng.randrange(len(data) + 2)))
        given = (data, len(front), log_offset, end, rng.choice((1000, 1000, 0, 3)), rng.random() < 0.8)
        found, expected = (
            entries_of(each, *given) for each in (plain_entries.plain_entries, plain_entries._plain_entries)
        )
        assert found == expected
        assert [type(each) for each in found[0]] == [DispatchEntry] * len(found[0])
        read += len(found[0])
    assert read > 100


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_records_are_left_alone_alike(seed):
    """Damage each length and number of a record in turn, and cut the record after it."""
    rng = random.Random(seed)
    for _ in range(400):
        piece = bytearray(
            encode_record(topic="T" * rng.randrange(1, 9), queue_id=0, body=b"x" * 70, properties=b"TAGS\x01A")
        )
        at = rng.choice((0, 2, 3, 4, 28, 36, 84, 86, 87, 158, len(piece) - 8, rng.randrange(len(piece))))
        piece[at : at + 1] = rng.choice((b"\xff", b"\x7f", b"\x80", b"\0", bytes((rng.randrange(256),))))
        data = bytes(piece)[: rng.choice((len(piece), rng.randrange(len(piece))))]
        for check_crc in (True, False):
            given = (data, 0, 0, 1 << 40, 10, check_crc)
            assert entries_of(plain_entries.plain_entries, *given) == entries_of(plain_entries._plain_entries, *given)
        noise = rng.randbytes(rng.randrange(400))
        assert entries_of(plain_entries.plain_entries, noise, 0, 0, 1 << 40, 10, True)[0] == []


def test_a_reader_of_entries_refuses_what_it_cannot_use():
    reader = speedups.compiled.EntryReader
    texts = (b"S", b"TAGS\x01", b"C")
    for given in ((dict, texts, 1, 2), (DispatchEntry, texts[:2], 1, 2), (DispatchEntry, ("S", b"T", b"C"), 1, 2)):
        with pytest.raises(TypeError):
            reader(*given)
    made = reader(DispatchEntry, texts, 1, 2)
    with pytest.raises(ValueError, match="position"):
        made(b"", -1, 0, 1, 1, True, {})
    with pytest.raises(TypeError):
        made("text", 0, 0, 1, 1, True, {})


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_written_alike(seed):
    rng = random.Random(seed)
    answers = SendResponses(rng.randbytes(8), rng.choice(("DefaultRegion", "100%", "%d")), rng.random() < 0.5)
    flags = [0, FLAG_ONEWAY, 1 << 40, 2**64 - 2, -2, 1 << 80]
    for _ in range(100):
        sends = [
            sent(
                b"", rng.randrange(-(1 << 31), 1 << 31), rng.randrange(1024), 0, b"ID" * n, b"", flag=rng.choice(flags)
            )
            for n in range(rng.randrange(8))
        ]
        results = [(None, rng.randrange(1 << 62), rng.randrange(1 << 62), 0, 0, "") for _ in sends]
        assert answers.frames(sends, results) == answers._frames(sends, results)


# --- received messages ------------------------------------------------------------------------------------------------


def property_text(rng):
    pieces = (
        b"TAGS\x01A",
        b"TAGS\x01",
        b"TAGS\x01B\x01b",
        b"XTAGS\x01A",
        b"a\x01b",
        b"\x01b",
        b"a\x01",
        b"a",
        b"",
        b"TAGS",
    )
    odd = ("k\x01\u5317".encode(), b"\xff\x01\xfe", b"TAGS\x01\xff", b"a\x01" + b"v" * 300, b"a\x01\0")
    text = b"\x02".join(rng.choice(rng.choice((pieces, odd))) for _ in range(rng.randrange(6)))
    return text + rng.choice((b"", b"\x02"))


def stored_record(rng):
    hosts = (STORE_HOST, bytes(15) + b"\1\0\0\x2a\x9f")
    odd = rng.choice((COMPRESSED, INNER_BATCH, NEED_UNWRAP, INNER_BATCH | NEED_UNWRAP, TRANSACTION_COMMIT, -1))
    data = encode_record(
        topic=rng.choice(("T", "T", "U", "\u0442\u0435\u043c\u0430", "t" * 300)),
        queue_id=rng.randrange(5),
        body=rng.randbytes(rng.choice((0, 1, 100))),
        properties=property_text(rng),
        queue_offset=rng.randrange(1 << 40),
        log_offset=rng.randrange(1 << 60),
        store_timestamp=rng.randrange(1 << 41),
        born_timestamp=rng.randrange(1 << 41),
        born_host=rng.choice(hosts),
        store_host=rng.choice(hosts),
        flag=rng.randrange(-5, 5),
        sys_flag=odd if rng.random() < 0.1 else 0,
        reconsume_times=rng.randrange(3),
        prepared_offset=rng.randrange(1 << 50),
    )
    if rng.random() < 0.1:  # in a length or in the topic, most often
        at = rng.choice((rng.randrange(len(data)), 3, 7, 87, len(data) - 1))
        data = data[:at] + rng.randbytes(1) + data[at + 1 :]
    return data


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_are_received_alike(seed, monkeypatch):
    rng = random.Random(seed)
    read = 0
    for _ in range(150):
        data = b"".join(stored_record(rng) for _ in range(rng.randrange(9)))
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data
        given = ("b", rng.choice(((), (), {"A"}, {"A", "B\x01b", "\ufffd"})), rng.choice((0, 7, 1 << 63)))
        own, other = [], []
        end, expected = (
            read_messages(data, 0, *given, into)
            for read_messages, into in ((decoding.plain_messages, own), (decoding._plain_messages, other))
        )
        assert end == expected
        assert own == other
        read += len(own)
        whole = list(decoding.decode_messages(data, *given))
        with monkeypatch.context() as patch:
            patch.setattr(decoding, "plain_messages", decoding._plain_messages)
            assert whole == list(decoding.decode_messages(data, *given))
    assert read > 100


@pytest.mark.parametrize("position", [-1, 1])
def test_messages_begin_in_the_records(position):
    with pytest.raises(ValueError, match="a position"):
        decoding.plain_messages(b"", position, "b", (), 0, [])


@pytest.mark.parametrize("seed", SEEDS)
def test_properties_are_decoded_alike(seed):
    rng = random.Random(seed)
    for _ in range(200):
        text = rng.choice((bytes, bytearray, memoryview))(property_text(rng))
        assert list(properties.decode(text).items()) == list(properties._decode(text).items())


# --- memory -----------------------------------------------------------------------------------------------------------


def test_nothing_is_kept():
    """The number of allocated blocks after a thousand rounds equals that after the first hundred."""
    rng = random.Random(5)
    stored = encode_record(topic="T", queue_id=0, body=b"", properties=b"")
    read = b"".join(
        struct.pack(">II", 8 + len(each), len(each)) + each + b"body" for each in (header(rng) for _ in range(300))
    )
    new = SendMessageResponse.__new__(SendMessageResponse)
    table = index_table.IndexTable(IndexLayout(7, 10**9), IndexHeader())
    answers = SendResponses(STORE_HOST, "R", True)
    entries = [entry(rng) for _ in range(5)]
    queue = ConsumeQueue(None, "T", 0)
    pieces = [log_piece(rng, 0) for _ in range(5)]
    pulled = b"".join(stored_record(rng) for _ in range(50))
    two = batch_body_module.encode_batch([batch_body_module.BatchEntry(0, b"body", b"TAGS\x01A\x02")] * 2)
    batch = MessageBatch(2, "T", 0, two, b"", None, 0, 5, STORE_HOST, STORE_HOST, 0, True)

    def work():
        for each in decoding.decode_messages(pulled, "b", {"A"}):
            assert each.properties is not None
        for piece in pieces:
            plain_entries.plain_entries(piece, 0, 0, 1 << 40, 100, True, {})
        frames, commands, at = frames_module.cut_frames(read, 1 << 20)[0], [], 0
        while at < len(frames):
            before = len(commands)
            sends_module._read_plain(frames, at, commands)
            at += len(commands) - before + 1  # the next one is left to Python
        answered = [each for each in commands if type(each) is Command and each.ext]
        for each in answered:
            headers_module._fill_header(new, fields_of(SendMessageResponse), each.ext)
            send_requests._write_plain((b"a", b"b", b"c", b"d"), each.opaque, each.ext, 1 << 40)
        sends = [each for each in commands if type(each) is SendCommand]
        messages = []
        send_templates.make_messages(
            sends, 0, 9999, b"", b"", "T", 0, 0, 0, STORE_HOST, STORE_HOST, 0, True, None, messages
        )
        for each in sends:
            sends_module.is_signed(each, SECRETS)
        send_templates.make_messages(
            [sent(b"", 1, 0, 0, b"ID", b"body", header=SIGNED_BODY)] * 3,
            *(0, 9, b"", b"", "T", 0, 0, 0, STORE_HOST, STORE_HOST, 0, True, SECRETS, []),
        )
        for each in messages:
            each.queue_id = 0
        results = []
        encode_all(messages, {("T", 0): queue}, results)
        lists = [], [], [], []
        assert appender.encode_batch(batch, {("T", 0): queue}, 0, 1 << 20, 5, 100, *lists)
        assert batch_body_module.plain_entries(batch.body, 5, 100, (b"a",)) == 2
        assert ids.join_offset_ids("A", lists[3])
        assert encoded_message.encode_plain([Message("T", b"a", tags="A")] * 3, "A", 1, 2, 1000)
        assert encoded_message.encode_plain([Message("T", b"a", tags="A")] * 3, "A", 1, 2, 9) is None
        answers.frames(sends[: len(results)], results)
        index_hash.hash_entries(entries)
        check.sound_records(stored, 0, ENTRY.pack(0, len(stored), 0) * 2, 0, 0, b"T")
        table.put([1, 2], [1, 2], [1, 2])
        with contextlib.suppress(ValueError):
            index_table.put_entries(bytearray(8), 1, 0, 0, [-1], [0], [0], set(), 1)
        return min(len(results), len(answered))

    blocks = []
    for rounds in (5, 50):
        assert min(work() for _ in range(rounds)) >= 0
        blocks.append(sys.getallocatedblocks())
    assert work() > 0
    assert blocks[1] - blocks[0] < 50


def encode_all(messages, known, results):
    assert appender.encode_records(messages, 0, known, 0, 1 << 20, 5, 4096, [], [], [], results)
