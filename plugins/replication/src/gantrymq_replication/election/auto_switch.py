"""The HA protocol of brokers whose roles are elected, without I/O: bytes in, events out. All integers are big-endian.

    slave -> master   | 1 int32 | from last file int16 | learner int16 | controller id int64 |      handshake
                      | 2 int32 | own end int64 |                                                   report
    master -> slave   | 1 int32 | size int32 | own end int64 | last epoch int32 | entries |         handshake
                        entry: | epoch int32 | start int64 |, size / 12 of them
                      | 2 int32 | size int32 | log offset int64 | epoch int32 | start of the epoch int64 |
                        confirm offset int64 | size bytes |                                         transfer

The slave compares the master's epochs with its own, cuts its log to the last point at which both are surely equal, and
reports it. From there the master sends its log; a transfer contains bytes of one epoch only. A transfer of size 0 is a
heartbeat.

The learner's number is 1 for a learner, 0 for other slaves, and 2 for one of GantryMQ that tells which topics and
groups it has (`table_copies`); RocketMQ's master compares it with 1 only.

Source: apache/rocketmq store/.../ha/autoswitch/AutoSwitchHAConnection.java, AutoSwitchHAClient.java (5.1.1 to 5.5.0;
5.0.0 and 5.1.0 had another handshake).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gantrymq.plugin.interfaces import LogRange
from gantrymq_replication.election.epochs import Epoch, EpochList
from gantrymq_replication.protocol import MOST_OFFSET, Refused

_HANDSHAKE: Final = 1
_TRANSFER: Final = 2
_LEARNER: Final = 1
_TELLS_TABLES: Final = 2
_STATE: Final = struct.Struct(">i")
_HELLO: Final = struct.Struct(">ihhq")
_REPORT: Final = struct.Struct(">iq")
_ANSWER: Final = struct.Struct(">iiqi")
_ENTRY: Final = struct.Struct(">iq")
_HEAD: Final = struct.Struct(">iiqiqq")
_MOST_ENTRIES: Final = 1000  # room in Java's buffer for a handshake
_MOST_BYTES: Final = 4 * 1024 * 1024 - _HEAD.size  # a Java slave reads no longer transfer


class SlaveHandshake(NamedTuple):
    """What a slave says of itself first."""

    broker_id: int
    from_last_file: bool
    learner: bool  # it never belongs to the in-sync set
    tells_tables: bool = False  # it asks for topics and groups, and so tells which it has


class Report(NamedTuple):
    """A slave has the log up to here; the first one says where it wants the log from."""

    log_offset: int


class MasterSide:
    """One slave, as its master sees it. Call `answer` after the handshake, and `begin` after the first report."""

    def __init__(self) -> None:
        self.slave: SlaveHandshake | None = None
        self.next_offset = -1  # of the next transfer; -1 before `begin`
        self.acked = -1  # what the slave has; -1 before the first report
        self._rest = b""

    def receive(self, data: bytes) -> Iterator[SlaveHandshake | Report]:
        """Iterate over what the slave says. A repeated handshake, which Java sends after 5 s, is skipped.

        Raises:
            Refused: it is not the protocol, or the slave acknowledges what it was not sent.
        """
        data, place = self._rest + data, 0
        while len(data) - place >= _STATE.size:
            state = _STATE.unpack_from(data, place)[0]
            layout = {_HANDSHAKE: _HELLO, _TRANSFER: _REPORT}.get(state)
            if layout is None or (state == _TRANSFER and self.slave is None):
                raise Refused(
                    f"its first bytes {data[place : place + 8]!r} are no handshake of a broker with elected roles; "
                    "this port serves slaves with enableControllerMode=true only"
                )
            if len(data) - place < layout.size:
                break
            fields = layout.unpack_from(data, place)
            place += layout.size
            if state == _TRANSFER:
                yield self._reported(fields[1])
            elif (
                hello := SlaveHandshake(fields[3], fields[1] == 1, fields[2] == _LEARNER, fields[2] == _TELLS_TABLES)
            ) != self.slave:
                if self.slave is not None:
                    raise Refused(f"it is broker id {hello.broker_id} now, and was {self.slave.broker_id} before")
                self.slave = hello
                yield hello
        self._rest = data[place:]

    def _reported(self, offset: int) -> Report:
        if not 0 <= offset < MOST_OFFSET:
            raise Refused(f"it reports {offset}, which is no log offset")
        if 0 <= self.next_offset < offset:
            raise Refused(f"it acknowledges log offset {offset}, but was sent only what is before {self.next_offset}")
        self.acked = max(self.acked, offset)
        return Report(offset)

    def answer(self, epochs: EpochList, end: int) -> bytes:
        """Return the answer to the handshake; *end*: of the master's log. Of too many epochs the newest are sent."""
        entries = epochs.entries[-_MOST_ENTRIES:]
        head = _ANSWER.pack(_HANDSHAKE, _ENTRY.size * len(entries), end, epochs.last_epoch)
        return head + b"".join(_ENTRY.pack(*entry) for entry in entries)

    def begin(self, log: LogRange, last_file: int) -> None:
        """Choose where to begin, after the first report; *last_file*: start of the newest log file.

        Raises:
            Refused: the master does not have the log that the slave asks for.
        """
        assert self.slave is not None
        start = self.acked
        if not start:
            start = last_file if self.slave.from_last_file else log.min_offset
        if start > log.max_offset:
            raise Refused(f"it asks for log offset {start}, after the end {log.max_offset} of this master's log")
        if start < log.min_offset:
            raise Refused(
                f"it asks for log offset {start}, which this master has deleted: its log begins at {log.min_offset}; "
                "move everything but brokerIdentity out of the slave's store folder, so that it begins there"
            )
        self.next_offset = start

    def room(self, epochs: EpochList) -> int:
        """Return how many bytes the next transfer may have, so that it contains one epoch only; 0 if none is known."""
        found = epochs.at(self.next_offset)
        return 0 if found is None else min(found[1] - self.next_offset, _MOST_BYTES)

    def transfer(self, data: bytes, epochs: EpochList, confirm_offset: int) -> tuple[bytes, bytes]:
        """Return head and body of a transfer of *data*, the log from `next_offset` on; empty for a heartbeat."""
        found = epochs.at(self.next_offset)
        entry = epochs.entries[0] if found is None else found[0]
        head = _HEAD.pack(_TRANSFER, len(data), self.next_offset, entry.epoch, entry.start, confirm_offset)
        self.next_offset += len(data)
        return head, data


class HandshakeAnswer(NamedTuple):
    """What a master says of its log."""

    epochs: tuple[Epoch, ...]
    last_epoch: int
    end: int


class Piece(NamedTuple):
    """A piece of the master's log: a whole transfer, or a part of one."""

    log_offset: int
    data: bytes  # empty: a heartbeat
    epoch: Epoch  # of the data
    confirm_offset: int  # of the master; a slave's is at most the end of its own log


class SlaveSide:
    """The master, as a slave sees it. Call `follow` after the master's handshake."""

    def __init__(self, slave: SlaveHandshake, least_epoch: int = 0) -> None:
        """*least_epoch*: a master whose last epoch is older is refused.

        A Java master that was elected while its log did not grow has no entry for its epoch, so that its last epoch is
        older than it is; use 0 if the master may be one.
        """
        self._slave, self._least_epoch = slave, least_epoch
        self.position = -1  # log offset of the next byte; -1 before `follow`
        self._anywhere = False
        self._answered = False
        self._last_epoch = -1
        self._current: tuple[Epoch, int] | None = None  # epoch and confirm offset of an unfinished transfer
        self._left = 0
        self._rest = b""

    def handshake(self) -> bytes:
        """Return the first bytes of the connection."""
        slave = self._slave
        kind = _LEARNER if slave.learner else _TELLS_TABLES if slave.tells_tables else 0
        return _HELLO.pack(_HANDSHAKE, slave.from_last_file, kind, slave.broker_id)

    def report(self, log_offset: int) -> bytes:
        """Return a report: the slave has the log up to *log_offset*."""
        return _REPORT.pack(_TRANSFER, log_offset)

    def follow(self, log_offset: int) -> bytes:
        """Ask for the log from the end of the slave's log on; 0 leaves it to the master where it begins."""
        self.position, self._anywhere = log_offset, log_offset == 0
        return self.report(log_offset)

    def receive(self, data: bytes) -> Iterator[HandshakeAnswer | Piece]:
        """Iterate over what the master says. A long transfer comes in several pieces, as it arrives.

        Raises:
            Refused: it is not the protocol, not what follows, or the master is older than *least_epoch*.
        """
        data, place = self._rest + data, 0
        while place < len(data):
            if self._left:
                assert self._current is not None
                piece = data[place : place + self._left]
                yield Piece(self.position, piece, *self._current)
                self.position += len(piece)
                self._left -= len(piece)
                place += len(piece)
                continue
            if len(data) - place < _STATE.size:
                break
            state = _STATE.unpack_from(data, place)[0]
            if state not in (_HANDSHAKE, _TRANSFER) or self._answered != (state == _TRANSFER):
                raise Refused(
                    f"it sent {data[place : place + 8]!r}, which does not follow: is that the HA port of a broker with "
                    "elected roles?"
                )
            layout = _ANSWER if state == _HANDSHAKE else _HEAD
            if len(data) - place < layout.size:
                break
            fields = layout.unpack_from(data, place)
            if state == _HANDSHAKE:
                size = fields[1]
                if size < 0 or size % _ENTRY.size or size > _MOST_ENTRIES * _ENTRY.size:
                    raise Refused(f"its handshake has {size} bytes of epochs")
                if len(data) - place < _ANSWER.size + size:
                    break
                entries = data[place + _ANSWER.size : place + _ANSWER.size + size]
                place += _ANSWER.size + size
                yield self._greeted([Epoch(*each) for each in _ENTRY.iter_unpack(entries)], fields[3], fields[2])
                continue
            place += _HEAD.size
            yield from self._begun(*fields[1:])
        self._rest = data[place:]

    def _greeted(self, entries: Sequence[Epoch], last_epoch: int, end: int) -> HandshakeAnswer:
        if not 0 <= end < MOST_OFFSET:
            raise Refused(f"its log ends at {end}, which is no log offset")
        if last_epoch < self._least_epoch:
            raise Refused(
                f"it is the master of epoch {last_epoch}, and the master of epoch {self._least_epoch} is known already"
            )
        self._answered = True
        return HandshakeAnswer(tuple(entries), last_epoch, end)

    def _begun(self, size: int, offset: int, epoch: int, epoch_start: int, confirm: int) -> Iterator[Piece]:
        if not 0 <= size <= _MOST_BYTES or self.position < 0:
            raise Refused(f"it sent {size} bytes for log offset {offset}")
        entry = Epoch(epoch, epoch_start)
        if size:
            if self._anywhere:
                self.position, self._anywhere = offset, False
            if epoch < self._last_epoch:
                raise Refused(f"it sent bytes of epoch {epoch} after bytes of epoch {self._last_epoch}")
            self._last_epoch = epoch
        if offset != self.position and not self._anywhere:
            raise Refused(f"it sent log offset {offset} where {self.position} was expected")
        if size:
            self._current, self._left = (entry, confirm), size
        else:
            yield Piece(offset, b"", entry, confirm)
