"""The epoch list of a log, and its file ``epochFileCheckpoint``, as Java brokers write them.

Each entry says which master's epoch the log offsets from `start` on were written in, up to the start of the next entry.

    2                 number of entries
    1748291651        CRC-32 of the entry lines with their line ends, without the sign bit; 0 is not checked
    1-0               epoch-start
    2-12072

The file before the last change is kept as ``epochFileCheckpoint.bak``. Java overwrites the file without a sync; here
both are replaced durably, the old text first.

Source: apache/rocketmq store/.../ha/autoswitch/EpochFileCache.java, common/.../utils/CheckpointFile.java.
"""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gantrymq.errors import StoreDamaged
from gantrymq.plugin.interfaces import BrokerEnvironment
from gantrymq.plugin.world import FileTree
from gantrymq_replication.settings import epoch_path

log = logging.getLogger("gantrymq.replication")

_CONFIRMED: Final = "confirmed"  # the file

NO_END: Final = (1 << 63) - 1  # the end of the last epoch in Java's answers


class Epoch(NamedTuple):
    """Where the log of one epoch begins."""

    epoch: int
    start: int  # log offset


class EpochList:
    """Epochs of a log in ascending order."""

    def __init__(self, entries: Iterable[Epoch] = ()) -> None:
        self._entries = [*entries]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochList) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EpochList({', '.join(f'{each.epoch}:{each.start}' for each in self._entries)})"

    @property
    def entries(self) -> tuple[Epoch, ...]:
        """All entries."""
        return tuple(self._entries)

    @property
    def last_epoch(self) -> int:
        """The newest epoch; -1 if there is none, as in Java's messages."""
        return self._entries[-1].epoch if self._entries else -1

    def append(self, epoch: int, start: int) -> bool:
        """Add an entry by Java's rule; return False if it is not newer and not after the last one.

        So a master that was elected while the log did not grow has no entry for its epoch.
        """
        if self._entries and (epoch <= self._entries[-1].epoch or start <= self._entries[-1].start):
            return False
        self._entries.append(Epoch(epoch, start))
        return True

    def begin(self, epoch: int, end: int) -> bool:
        """Add the entry of a new master whose log ends at *end*; return False if *epoch* is not newer.

        Unlike in `append`, an entry may start where the last one does, so that the last epoch of the list is the
        master's own. One without a record stays, because a RocketMQ slave may have no other one in common.
        """
        if epoch <= self.last_epoch:
            return False
        self.cut_from_offset(end + 1)
        self._entries.append(Epoch(epoch, end))
        return True

    def cut_from_offset(self, log_offset: int) -> bool:
        """Remove entries that start at *log_offset* or later; return whether there were any."""
        return self._keep([each for each in self._entries if each.start < log_offset])

    def cut_from_epoch(self, epoch: int) -> bool:
        """Remove entries of *epoch* and later; return whether there were any."""
        return self._keep([each for each in self._entries if each.epoch < epoch])

    def forget_before(self, log_offset: int) -> bool:
        """Remove entries that end at *log_offset*, the start of the log, or earlier; return whether there were any.

        One without a record that starts there stays, as it does elsewhere.
        """
        ends = [following.start for following in self._entries[1:]] + [NO_END]
        pairs = zip(self._entries, ends, strict=True)
        return self._keep([each for each, end in pairs if end > log_offset or each.start >= log_offset])

    def _keep(self, entries: list[Epoch]) -> bool:
        changed = len(entries) < len(self._entries)
        self._entries = entries
        return changed

    def at(self, log_offset: int) -> tuple[Epoch, int] | None:
        """Return the entry that contains *log_offset*, and its end; None before the first entry."""
        end = NO_END
        for entry in reversed(self._entries):
            if entry.start <= log_offset:
                return entry, end
            end = entry.start
        return None

    def consistent_point(self, own_end: int, master: Sequence[Epoch], master_end: int) -> int | None:
        """Return the log offset up to which this log and the master's are surely equal; None if none is known.

        The newest epoch that is in both lists with the same start decides: the logs are equal up to the earlier of its
        two ends. A master of RocketMQ 5.5.0 may have entries that were cut away; they do not match, or end early.
        Without such an epoch, logs that begin at 0 are equal up to 0: a slave that never got a record of a master has
        no entry of its epoch. RocketMQ's slave refuses that. A slave must not cut records that it knows to be
        confirmed, nor records of fixed roles (epoch 0), of which nothing is known.
        """
        following = [*(each.start for each in master[1:]), master_end]
        ends = dict(zip(master, following, strict=False))
        end = own_end
        for entry in reversed(self._entries):
            if entry in ends:
                return min(end, ends[entry])
            end = entry.start
        begins = bool(self._entries and master) and self._entries[0].start == master[0].start == 0
        return 0 if begins and self._entries[0].epoch else None

    def common(self, master: Sequence[Epoch]) -> Epoch | None:
        """Return the newest epoch that is in both lists with the same start; None if there is none."""
        return next((each for each in reversed(self._entries) if each in master), None)


# --- the file ---------------------------------------------------------------------------------------------------------


def format_epochs(entries: Sequence[Epoch]) -> bytes:
    """Return the content of the file."""
    lines = "".join(f"{each.epoch}-{each.start}\n" for each in entries).encode()
    return b"%d\n%d\n" % (len(entries), zlib.crc32(lines) & 0x7FFFFFFF) + lines


def parse_epochs(content: bytes) -> list[Epoch]:
    """Return the entries of a file.

    Raises:
        ValueError: it is damaged; the message says how.
    """
    lines = content.splitlines(keepends=True)
    try:
        count, crc = (int(line) for line in lines[:2])
        entries = [Epoch(*map(int, line.split(b"-"))) for line in lines[2:]]
    except (TypeError, ValueError):
        raise ValueError("it is not a list of epochs") from None
    if len(entries) != count:
        raise ValueError(f"it has {len(entries)} of {count} epochs")
    if crc and crc != zlib.crc32(b"".join(lines[2:])) & 0x7FFFFFFF:
        raise ValueError("its checksum does not match")
    pairs = itertools.pairwise(entries)
    if any(later.epoch <= earlier.epoch or later.start < earlier.start for earlier, later in pairs):
        raise ValueError("its epochs are not in ascending order")
    return entries


class LoadedEpochs(NamedTuple):
    """The result of reading the file at the start."""

    epochs: EpochList
    problem: str  # why the newest entries may be missing; empty if they are not


class EpochFile:
    """Reads and replaces the file. Its methods block."""

    def __init__(self, files: FileTree, path: Path) -> None:
        self._files, self.path = files, path
        self._backup = path.with_name(f"{path.name}.bak")

    @property
    def exists(self) -> bool:
        """Whether there is a list, or an older one."""
        return any(self._files.stat(each) is not None for each in (self.path, self._backup))

    def load(self) -> LoadedEpochs:
        """Return the list; empty if there is no file yet.

        A list from the older ``.bak`` may lack the newest epochs. It is enough to follow a master, whose list completes
        it. It is not enough to be one: slaves would compare their logs with wrong epochs.

        Raises:
            StoreDamaged: both files are damaged, or one is and the other is missing.
        """
        problems = []
        for path in (self.path, self._backup):
            if self._files.stat(path) is None:
                problems.append(f"{path} is missing")
                continue
            try:
                found = EpochList(parse_epochs(self._files.read(path)))
            except ValueError as error:
                problems.append(f"{path}: {error}")
                continue
            older = f"the older list in {path.name} is used, so this broker must follow a master before it may be one"
            return LoadedEpochs(found, f"{problems[0]}; {older}" if problems else "")
        if all(problem.endswith(" is missing") for problem in problems):
            return LoadedEpochs(EpochList(), "")
        raise StoreDamaged(
            f"the list of epochs of the log cannot be read: {'; '.join(problems)}. Restore it from a backup of this "
            "broker; or, while another broker is the master, remove both files, so that the logs are compared"
        )

    def save(self, epochs: EpochList) -> None:
        """Replace the file, durably. An empty list, which Java does not write, removes both files."""
        if not epochs.entries:
            self._files.remove(self._backup)
            self._files.remove(self.path)
            self._files.sync_dir(self.path.parent)
            return
        if self._files.stat(self.path) is not None:
            before = self._files.read(self.path)
            try:
                parse_epochs(before)
            except ValueError:
                pass  # a damaged file does not replace a good older one
            else:
                self._files.replace(self._backup, before)
        self._files.replace(self.path, format_epochs(epochs.entries))


def confirm_file(broker: BrokerEnvironment) -> Path:
    """Return the file with the confirm offset."""
    return broker.root / "plugins" / "replication" / _CONFIRMED


async def forget_epochs(broker: BrokerEnvironment) -> None:
    """Remove the epochs of the log, before anything is appended to it."""
    files, epochs = broker.world.files, EpochFile(broker.world.files, epoch_path(broker.settings, broker.root))
    if epochs.exists:
        await broker.world.workers.run(epochs.save, EpochList())
        log.warning("the roles are fixed now, so the epochs of the log were removed: %s", epochs.path)
    if files.stat(confirm_file(broker)) is not None:
        await broker.world.workers.run(files.remove, confirm_file(broker))
