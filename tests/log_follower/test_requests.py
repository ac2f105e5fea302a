"""The source's answers, and two brokers in one process."""

import asyncio
import os
import struct
import zlib

import log_follower
import pytest
from log_follower.frames import ANSWER, REQUEST, Kind, Status, write_request
from log_follower.source import answer
from polling import wait_until

from gantrymq.client import ClientError
from gantrymq.interfaces import Cleaning

pytest.importorskip("gantrymq_storage_mmap")


async def no_wait(log_offset):
    """Wait for nothing."""


def ask(node, kind, log_offset=0, length=0):
    return node.run(answer(node.broker, kind, log_offset, length, no_wait))


def log_range(node):
    return struct.unpack(">QQ", ask(node, Kind.RANGE)[1])


SETTINGS = {"store": "mmap", "mappedFileSizeCommitLog": 65536, "slaveReadEnable": True}


def test_a_request_and_an_answer_have_these_bytes():
    assert REQUEST.pack(Kind.READ, 258, 3).hex() == "03000000000000010200000003"
    assert ANSWER.pack(Status.REFUSED, 2).hex() == "0100000002"


@pytest.mark.gantrymq(settings=SETTINGS, plugins=[log_follower])
def test_each_request_is_answered(gantrymq_broker):
    gantrymq_broker.send("Orders", b"one")
    low, high = log_range(gantrymq_broker)
    status, data = ask(gantrymq_broker, Kind.READ, low, high - low)
    assert status == Status.OK and b"one" in data and len(data) == high - low
    assert ask(gantrymq_broker, Kind.CHECKSUM, low, high) == (0, zlib.crc32(data).to_bytes(4, "big"))
    assert ask(gantrymq_broker, Kind.READ, high, 10) == (0, b"")
    assert ask(gantrymq_broker, Kind.FLUSHED, high) == (0, b"")
    assert b"Orders" in ask(gantrymq_broker, Kind.TABLES)[1]


@pytest.mark.gantrymq(settings=SETTINGS, plugins=[log_follower])
def test_what_the_log_does_not_have_is_refused(gantrymq_broker):
    assert ask(gantrymq_broker, Kind.READ, 1, 1)[0] == Status.REFUSED
    assert ask(gantrymq_broker, Kind.READ, 0, 1 << 21)[0] == Status.REFUSED
    assert ask(gantrymq_broker, 9) == (Status.REFUSED, b"9 is no kind of request")


def bodies(node):
    return [each.body for each in node.pull("Orders")]


def followed(source, copy):
    """Wait until both logs are equal."""
    wait_until(lambda: log_range(source) == log_range(copy), "equal ends")
    high = log_range(source)[1]
    for start in range(log_range(source)[0], high, 65536):
        assert ask(source, Kind.CHECKSUM, start, 65536) == ask(copy, Kind.CHECKSUM, start, 65536)


def test_a_copy_follows_refuses_sends_and_follows_a_truncation(gantrymq_broker_factory):
    source = gantrymq_broker_factory(settings=SETTINGS, plugins=[log_follower])
    for number in range(300):
        source.send("Orders", b"%d" % number * 200)
    address = source.call(lambda: source.broker.state_folder("log_source") / "address")
    copy = gantrymq_broker_factory(settings={**SETTINGS, "logFollow": str(address)}, plugins=[log_follower])
    followed(source, copy)
    wait_until(lambda: bodies(copy) == bodies(source), "equal messages")  # published once it is on the disk
    with pytest.raises(ClientError, match="replica"):
        copy.send("Orders", b"no")
    source.run(source.broker.store.raw_log.truncate(0))
    source.send("Orders", b"again")
    followed(source, copy)
    wait_until(lambda: bodies(copy) == [b"again"], "the new message alone")


async def open_connection(broker):
    """Return the streams of a connection to the source."""
    address = broker.world.files.read(broker.state_folder("log_source") / "address").decode()
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


def first_file(source):
    """Clean, with all files older than they are kept, and return the start of the log."""
    for path in (source.broker.root / "commitlog").iterdir():
        os.utime(path, (0, 0))
    source.run(source.broker.store.clean(Cleaning.EXPIRED_LOG))
    return log_range(source)[0]


def test_an_empty_copy_begins_where_the_source_begins(gantrymq_broker_factory):
    source = gantrymq_broker_factory(settings=SETTINGS, plugins=[log_follower])
    for number in range(300):
        source.send("Orders", b"%d" % number * 400)
    last = log_range(source)[1] // 65536 * 65536
    wait_until(lambda: first_file(source) == last > 0, "deletion of all files but the last")
    address = source.broker.state_folder("log_source") / "address"
    copy = gantrymq_broker_factory(settings={**SETTINGS, "logFollow": str(address)}, plugins=[log_follower])
    followed(source, copy)


def test_a_copy_that_the_source_no_longer_continues_stays_as_it_is(gantrymq_broker_factory, caplog):
    source = gantrymq_broker_factory(settings=SETTINGS, plugins=[log_follower])
    source.send("Orders", b"old")
    address = source.broker.state_folder("log_source") / "address"
    copy = gantrymq_broker_factory(settings={**SETTINGS, "logFollow": str(address)}, plugins=[log_follower])
    followed(source, copy)
    service = copy.call(copy.broker.service, "log_follower")
    copy.run(service.stop())
    for number in range(300):
        source.send("Orders", b"%d" % number * 400)
    last = log_range(source)[1] // 65536 * 65536
    wait_until(lambda: first_file(source) == last > 0, "deletion of all files but the last")
    end = log_range(copy)
    copy.run(service.start(copy.broker))
    wait_until(lambda: "begin again with an empty store folder" in caplog.text, "the reason")
    assert log_range(copy) == end


@pytest.mark.gantrymq(settings=SETTINGS, plugins=[log_follower])
def test_a_connected_follower_holds_back_retention(gantrymq_broker):
    source = gantrymq_broker
    for number in range(300):
        source.send("Orders", b"%d" % number * 400)

    async def connect():
        reader, writer = await open_connection(source.broker)
        assert await write_request(reader, writer, Kind.READ, 65536, 1)
        return writer

    writer = source.run(connect())
    wait_until(lambda: first_file(source) == 65536, "deletion of the file that the follower has")
    for _ in range(3):
        assert first_file(source) == 65536
    source.call(writer.close)
    wait_until(lambda: first_file(source) > 65536, "deletion without the follower")
