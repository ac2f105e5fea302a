"""RocketMQ's HA protocol: bytes in, events out. No socket, clock or thread.

    slave -> master   | own end int64 |                                       a report
    master -> slave   | log offset int64 | size int32 | size bytes |          a transfer; size 0 is a heartbeat

The first report says where the master begins to send, later ones acknowledge what the slave has. Transfers follow each
other without a gap, and cut records anywhere.

Source: apache/rocketmq store/.../ha/DefaultHAConnection.java, DefaultHAClient.java (4.9.7, 5.3.3 and 5.5.0 alike).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from gantrymq.errors import RemoteProtocolError
from gantrymq.plugin.interfaces import LogRange

REPORT: Final = struct.Struct(">q")
HEAD: Final = struct.Struct(">qi")
MOST_OFFSET: Final = 1 << 60  # text and TLS hellos read as larger numbers
CHALLENGE_OFFSET: Final = int.from_bytes(b"\xffHA-ID\0\x01", "big", signed=True)  # see `secret_proof`; last: version
_TLS_HELLO: Final = re.compile(rb"\x16\x03[\x00-\x04]", re.DOTALL)
_TLS_ALERT: Final = re.compile(rb"\x15\x03[\x00-\x04]", re.DOTALL)
NO_HA_PORT: Final = "is that the HA port of a RocketMQ broker?"


def keep_records(log_offset: int, then: str = "start it as the master, or with") -> str:
    """Return instructions for a log with records that the master lacks from *log_offset*; they may be the only copies.

    *then*: how its broker becomes the master, before ``an empty folder``.
    """
    return (
        f"They may be the last copies: 'gantrymq store extract DIR --from-log-offset {log_offset}' prints them. Keep a "
        f"copy of its store folder, then {then} an empty folder to copy the master's log"
    )


_ELECTED_HANDSHAKE: Final = 1 << 32  # the first bytes of `election.auto_switch.HELLO`, with two flags
_ELECTED_MASK: Final = ~0x1_0001


class Refused(RemoteProtocolError):
    """The peer's log does not fit, or it does not speak the protocol; the sentence says how to mend that."""


class MasterSide:
    """One slave, as its master sees it."""

    def __init__(self, new_slave_from: int) -> None:
        """*new_slave_from*: where a slave with an empty log begins."""
        self.next_offset = -1  # of the next transfer; -1 before the first report
        self.acked = -1  # end of the slave's log; -1 before the first report
        self.has_news = False  # a heartbeat only reports that the slave is up to date
        self._new_slave_from = new_slave_from
        self._rest = b""

    @property
    def begun(self) -> bool:
        """Whether the slave has reported."""
        return self.next_offset >= 0

    def receive(self, data: bytes, log: LogRange) -> bool:
        """Take bytes of the slave; *log* is the master's. Return whether there was a report.

        Raises:
            Refused: the report cannot be one of a copy of this log.
        """
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        for (offset,) in REPORT.iter_unpack(data[:whole]):
            if self.begun:
                self._acknowledge(offset)
            else:
                self._begin(offset, log)
        return whole > 0

    def _begin(self, offset: int, log: LogRange) -> None:
        start = offset or self._new_slave_from
        if not 0 <= offset < MOST_OFFSET:
            raise Refused(_stranger(REPORT.pack(offset)))
        if start > log.max_offset and offset & _ELECTED_MASK == _ELECTED_HANDSHAKE:
            raise Refused(
                "it has an elected role (enableControllerMode=true), and this master a fixed one: set the same on both"
            )
        if start > log.max_offset:
            raise Refused(
                f"its log ends at {start}, after the end {log.max_offset} of this master's: it has records that this "
                f"log does not have. {keep_records(log.max_offset)}"
            )
        if start < log.min_offset:
            raise Refused(
                f"it asks for log offset {start}, which this master has deleted: its log begins at {log.min_offset}; "
                "a slave of GantryMQ asks again for a later file; if its log ends before that, empty its store folder"
            )
        self.next_offset, self.acked = start, offset

    def _acknowledge(self, offset: int) -> None:
        if not 0 <= offset <= self.next_offset:
            raise Refused(f"it acknowledges log offset {offset}, but was sent only what is before {self.next_offset}")
        if offset < self.acked:
            raise Refused(
                f"it acknowledges log offset {offset} after {self.acked}: it has lost what it had, or is no slave"
            )
        self.acked = offset

    def room(self) -> int:
        """Return how many bytes may be sent from `next_offset` on."""
        return MOST_OFFSET

    def transfer(self, data: bytes) -> tuple[bytes, bytes]:
        """Return head and body of a transfer of *data*, the log from `next_offset` on; empty for a heartbeat."""
        head = HEAD.pack(self.next_offset, len(data))
        self.next_offset += len(data)
        return head, data


class Transfer(NamedTuple):
    """A piece of the master's log."""

    log_offset: int
    data: bytes  # empty: a heartbeat of a master without anything else to send


class SlaveSide:
    """The master, as a slave sees it."""

    def __init__(self, start: int) -> None:
        """*start*: the first report; 0 leaves it to the master where it begins."""
        self.position = start  # log offset of the next byte
        self._anywhere = start == 0
        self._left = 0  # bytes of the current transfer still to come
        self._rest = b""

    def report(self, log_offset: int) -> bytes:
        """Return a report: the slave has the log up to *log_offset*."""
        return REPORT.pack(log_offset)

    def receive(self, data: bytes) -> Iterator[Transfer]:
        """Iterate over the transfers in *data*. A long one comes in several pieces, as it arrives.

        Raises:
            Refused: the master sends something other than the following bytes.
        """
        data = self._rest + data
        place = 0
        while place < len(data):
            if self._left:
                piece = data[place : place + self._left]
                yield Transfer(self.position, piece)
                self.position += len(piece)
                self._left -= len(piece)
                place += len(piece)
                continue
            if len(data) - place < HEAD.size:
                break
            offset, size = HEAD.unpack_from(data, place)
            place += HEAD.size
            self._check(offset, size)
            self._left = size
            if not size:
                yield Transfer(offset, b"")
        self._rest = data[place:]

    def _check(self, offset: int, size: int) -> None:
        if offset == CHALLENGE_OFFSET:
            raise Refused("it asks for a secret: set haSecretPath here too, to a file with the secret of the master's")
        if size < 0 or not 0 <= offset < MOST_OFFSET:
            if _TLS_ALERT.match(HEAD.pack(offset, size)):
                raise Refused("it wants TLS; set haTlsEnable=true here too, with certificates")
            raise Refused(f"it sent {size} bytes for log offset {offset}: {NO_HA_PORT}")
        if self._anywhere and size:
            self.position, self._anywhere = offset, False
        if not self._anywhere and offset != self.position:
            raise Refused(f"it sent log offset {offset} where {self.position} was expected")


def _stranger(first: bytes) -> str:
    if _TLS_HELLO.match(first):
        return "it wants TLS, and haTlsEnable is false on this master; set it on both or on none"
    return f"its first bytes {first!r} are no log offset; this port serves slaves only"
