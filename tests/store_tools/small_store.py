"""A store of a few small files, made record by record."""

from __future__ import annotations

import json
from pathlib import Path

from gantrymq.formats.record import encode_record
from gantrymq.world.real import RealFiles
from gantrymq_store_files.blank import encode_blank, fits
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_tools.check import ranges
from gantrymq_store_tools.index_files import IndexWriter
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.queue_write import QueueWriter
from gantrymq_store_tools.record_entries import EntryRules

LOG_FILE_BYTES = 8192
INDEX = IndexLayout(20, 50)
START_MS = 1_795_245_252_000


class SmallStore:
    """Records are added, then everything is written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = RealFiles()
        self.records: list[tuple[int, int]] = []  # log offset, size
        self.next: dict[tuple[str, int], int] = {}
        self.last_ms = 0
        self._log = bytearray()

    def add(self, topic: str, queue_id: int, body: bytes, key: str = "", *, tag: str = "red", **fields: object) -> int:
        """Append a record; returns its log offset."""
        text = f"UNIQ_KEY\x01{len(self.records):032d}\x02KEYS\x01{key} all\x02TAGS\x01{tag}\x02" if key else ""
        self.last_ms = START_MS + 500 * len(self.records)
        offset = self.next.get((topic, queue_id), 0)
        made = {"queue_offset": offset, "store_timestamp": self.last_ms, "properties": text.encode(), **fields}
        record = encode_record(topic=topic, queue_id=queue_id, body=body, log_offset=len(self._log), **made)
        left = LOG_FILE_BYTES - len(self._log) % LOG_FILE_BYTES
        if not fits(len(record), left):
            self._log += encode_blank(left).ljust(left, b"\0")
            record = encode_record(topic=topic, queue_id=queue_id, body=body, log_offset=len(self._log), **made)
        self.next[topic, queue_id] = made["queue_offset"] + 1
        self.records.append((len(self._log), len(record)))
        self._log += record
        return self.records[-1][0]

    def write(self, rules: EntryRules | None = None) -> None:
        """Write log, queues, index, checkpoint and topics.json."""
        folder = self.root / "commitlog"
        folder.mkdir(parents=True)
        for start in range(0, len(self._log), LOG_FILE_BYTES):
            piece = bytes(self._log[start : start + LOG_FILE_BYTES])
            (folder / file_name(start)).write_bytes(piece.ljust(LOG_FILE_BYTES, b"\0"))
        layout = find_layout(self.files, self.root)
        reader, open_files = LogReader(self.files, layout.log), OpenFiles(self.files)
        queues = QueueWriter(self.files, layout, self.root, open_files)
        index = IndexWriter(self.files, self.root / "index", INDEX, lambda time_ms: 0)
        for part in ranges(reader, rules or EntryRules()):
            queues.add(part)
            index.add(part)
        queues.finish()
        index.finish()
        reader.close()
        checkpoint = Checkpoint(self.last_ms, self.last_ms, self.last_ms)
        (self.root / "checkpoint").write_bytes(encode_checkpoint(checkpoint))
        table = {topic: {"topicName": topic} for topic, _ in self.next}
        (self.root / "config").mkdir()
        (self.root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))

    def log_file(self, log_offset: int) -> tuple[Path, int]:
        """The file that holds a log offset, and the position in it."""
        start = log_offset - log_offset % LOG_FILE_BYTES
        return self.root / "commitlog" / file_name(start), log_offset - start

    def spoil(self, path: Path, position: int, data: bytes) -> None:
        """Write over bytes of a file."""
        content = bytearray(path.read_bytes())
        content[position : position + len(data)] = data
        path.write_bytes(content)

    def spoil_log(self, log_offset: int, data: bytes) -> None:
        """Write over bytes of the log, within one file."""
        path, position = self.log_file(log_offset)
        self.spoil(path, position, data)

    def contents(self, root: Path | None = None) -> dict[str, bytes]:
        """Every file below a folder."""
        top = root if root is not None else self.root
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}
