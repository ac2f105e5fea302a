"""A vectorized `rebuild_range` for ordinary records; imported only if NumPy is installed.

A run of records is taken if each of them has version 1, IPv4 hosts, an ordinary topic and regular ASCII property text,
and is neither prepared, rolled back nor an inner batch. The checks are those of the record-by-record path: lengths,
magic, log offset, CRC of the body, topic, property text. The first record that differs ends the run and is left to that
path, which also determines what is wrong with it.

The only loops over records are the chain of their sizes, the CRCs, and the slices of property text. Everything else
works on columns: headers are gathered into a structured array, property text into one buffer whose separators are found
at once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from gantrymq.formats.record import HEAD_V4, MAGIC_V1
from gantrymq.model.java import string_hash
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import BORN_HOST_V6, INNER_BATCH, STORE_HOST_V6, TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_store_tools.range_part import RangePart
from gantrymq_store_tools.record_columns import RecordFields, chain, first_false, gather, right_crcs
from gantrymq_store_tools.record_entries import EntryRules

__all__ = ["NumpyRecords"]

Column = Callable[[str], Any]  # the values of a field of the head, by its name

MIN_RECORDS = 32  # for fewer, the overhead exceeds the gain
MAX_VALUE_BYTES = 255  # of a key or tag; longer ones take the record-by-record path
_HEAD_BYTES = HEAD_V4.size
_ENTRY = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("code", ">i8")])
_STORED_AS_IS = (BORN_HOST_V6 | STORE_HOST_V6 | INNER_BATCH) | (TRANSACTION_MASK & ~TRANSACTION_COMMIT)


class NumpyRecords:
    """Adds runs of plain records to a part."""

    def __init__(self, rules: EntryRules, *, check_crc: bool, queues: bool, index: bool) -> None:
        """Prepare for runs under *rules*; *queues* and *index* say what is added."""
        self._rules = rules
        self._check_crc = check_crc
        self._queues = queues
        self._index = index
        self.last_timestamp = 0  # ms, store time of the last record added
        self._odd_topics = {topic.encode() for topic in (SCHEDULE_TOPIC, *rules.batch_topics, *rules.dropped)}

    def take(self, part: RangePart, view: memoryview, base: int, end: int) -> int:
        """Add the plain records at the start of *view* to *part*.

        Args:
            part: receives entries, keys and counts.
            view: bytes of one log file; an incomplete record ends the run.
            base: log offset of the first byte of *view*.
            end: records at or after this log offset are not added.

        Returns:
            The number of bytes processed.
        """
        starts = chain(view, min(end - base, len(view)), magics=(MAGIC_V1,))
        if len(starts) < MIN_RECORDS:
            return 0
        data = np.frombuffer(view, dtype=np.uint8)
        at = np.array(starts, dtype=np.int64)
        head = RecordFields(data, at).column
        body, size = head("body_length").astype(np.int64), head("total_size").astype(np.int64)
        good = (head("log_offset") == at + base) & (head("sys_flag") & _STORED_AS_IS == 0)
        good &= (body >= 0) & (_HEAD_BYTES + body + 3 <= size) & (head("queue_id") >= 0)
        topic_at = np.where(good, at + _HEAD_BYTES + body, 0)
        topic_length = data[topic_at].astype(np.int64)
        length_at = topic_at + 1 + topic_length
        good &= (topic_length > 0) & (length_at + 2 <= at + size)
        length_at = np.where(good, length_at, 0)
        text_length = data[length_at].astype(np.int64) << 8 | data[length_at + 1]
        good &= length_at + 2 + text_length == at + size
        count = first_false(good)
        if count >= MIN_RECORDS and self._check_crc:
            bodies = at[:count] + _HEAD_BYTES
            count = right_crcs(
                view, bodies.tolist(), (bodies + body[:count]).tolist(), head("body_crc")[:count].tolist()
            )
        if count < MIN_RECORDS:
            return 0
        texts = _Texts(view, (length_at + 2)[:count], text_length[:count])
        topics = _Topics(data, (topic_at + 1)[:count], topic_length[:count])
        count = min(texts.well_formed(self._rules), topics.usable(self._odd_topics))
        if count < MIN_RECORDS:
            return 0
        self._add(part, lambda name: head(name)[:count], topics, texts, count)
        return starts[count - 1] + int(size[count - 1])

    # --- adding -----------------------------------------------------------------------------------------------------

    def _add(self, part: RangePart, head: Column, topics: _Topics, texts: _Texts, count: int) -> None:
        part.records += count
        part.record_bytes += int(head("total_size").sum())
        stored = head("store_timestamp").astype(np.int64)
        if not part.first_timestamp:
            part.first_timestamp = int(stored[0])
        part.last_timestamp = max(part.last_timestamp, int(stored.max()))
        self.last_timestamp = int(stored[-1])
        part.records_end = int(head("log_offset")[-1]) + int(head("total_size")[-1])
        if self._queues:
            self._add_entries(part, head, topics, texts.codes(count), count)
        if self._index:
            self._add_keys(part, head, stored, topics, texts, count)

    def _add_entries(self, part: RangePart, head: Column, topics: _Topics, codes: Any, count: int) -> None:
        entries = np.empty(count, dtype=_ENTRY)
        entries["log_offset"], entries["size"], entries["code"] = head("log_offset"), head("total_size"), codes
        group = topics.numbers[:count] << 32 | head("queue_id").astype(np.int64)
        order = np.argsort(group, kind="stable")
        group, offsets = group[order], head("queue_offset").astype(np.int64)[order]
        packed = memoryview(entries[order].tobytes())
        cuts = np.flatnonzero((group[1:] != group[:-1]) | (offsets[1:] != offsets[:-1] + 1)) + 1
        edges = [0, *cuts.tolist(), count]
        for first, last in pairwise(edges):
            queue = Queue(topics.names[int(group[first]) >> 32], int(group[first]) & 0xFFFFFFFF)
            part.add_run(queue, int(offsets[first]), packed[first * 20 : last * 20])

    def _add_keys(self, part: RangePart, head: Column, stored: Any, topics: _Topics, texts: _Texts, count: int) -> None:
        records, places, lengths, tags = texts.keys(count, tags=self._rules.tag_keys)
        seeds = np.array(
            [[string_hash(f"{name}#") & 0xFFFFFFFF, string_hash(f"{name}#T#") & 0xFFFFFFFF] for name in topics.names],
            dtype=np.uint32,
        )
        seed = seeds[topics.numbers[records], tags]
        hashes = texts.hashes(places, lengths, seed).view(np.int32)
        hashes = np.where(hashes < 0, -hashes, hashes)
        hashes[hashes < 0] = 0  # -2147483648 has no positive counterpart
        columns = part.index
        columns.hashes.frombytes(hashes.astype(np.int32).tobytes())
        columns.log_offsets.frombytes(head("log_offset")[records].astype(np.int64).tobytes())
        columns.timestamps.frombytes(stored[records].tobytes())
        columns.tags.frombytes(tags.astype(np.int8).tobytes())


class _Topics:
    """Topics of records, as indexes into a list of names."""

    def __init__(self, data: Any, places: Any, lengths: Any) -> None:
        count = len(places)
        self.names: list[str] = []
        self._raw: list[bytes] = []
        self.numbers = np.zeros(count, dtype=np.int64)
        for length in np.unique(lengths).tolist():
            chosen = np.flatnonzero(lengths == length)
            texts = gather(data, places[chosen], length)
            _, first, inverse = np.unique(texts, return_index=True, return_inverse=True)
            self.numbers[chosen] = inverse.reshape(-1) + len(self._raw)
            self._raw += [bytes(texts[n].tobytes()) for n in first.tolist()]

    def usable(self, odd: set[bytes]) -> int:
        """Return the number of records before the first whose topic needs the record-by-record path."""
        bad = []
        for number, raw in enumerate(self._raw):
            try:
                self.names.append(raw.decode("utf-8"))
            except UnicodeDecodeError:
                self.names.append("")
                bad.append(number)
                continue
            if raw in odd or b"\0" in raw:
                bad.append(number)
        return first_false(~np.isin(self.numbers, bad))


class _Texts:
    """The concatenated property texts of records, and the positions of their pairs."""

    def __init__(self, view: memoryview, places: Any, lengths: Any) -> None:
        last = places + lengths
        pieces: list[memoryview | bytes] = [
            view[first:end] for first, end in zip(places.tolist(), last.tolist(), strict=True)
        ]
        data = np.frombuffer(view, dtype=np.uint8)
        unclosed = (lengths > 0) & (data[last - 1] != 2)  # older clients omit the last separator
        for number in np.flatnonzero(unclosed).tolist():
            pieces[number] = bytes(pieces[number]) + b"\x02"
        lengths = lengths + unclosed
        self._text = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        self._ends = np.cumsum(lengths)
        self._record = self._start = self._equals = self._end = np.zeros(0, dtype=np.int64)

    def well_formed(self, rules: EntryRules) -> int:
        """Find the pairs and return the number of records before the first that needs the record-by-record path."""
        text, ends = self._text, self._ends
        good = np.ones(len(ends), dtype=bool)
        odd = np.flatnonzero((text > 127) | (text == 0))
        good[np.searchsorted(ends, odd, side="right")] = False
        count = first_false(good)
        text = text[: int(ends[count - 1])] if count else text[:0]
        equals, end = np.flatnonzero(text == 1), np.flatnonzero(text == 2)
        pairs = min(len(equals), len(end))
        start = np.concatenate(([0], end[: max(pairs - 1, 0)] + 1))[:pairs]
        equals_of, end_of = equals[:pairs], end[:pairs]
        fine = (equals_of > start) & (end_of > equals_of + 1) & (end_of - equals_of <= MAX_VALUE_BYTES)
        if pairs:
            following = np.append(equals[1 : pairs + 1], len(text) + 1)[:pairs]
            fine &= following > end_of  # an earlier one is a second separator in this pair
        sound = first_false(fine)
        if sound < max(len(equals), len(end)):  # a pair without a name or value, or with two separators
            place = int(start[sound]) if sound < pairs else (int(end_of[-1]) + 1 if pairs else 0)
            count = min(count, int(np.searchsorted(ends, place, side="right")))
        self._start, self._equals, self._end = start[:sound], equals_of[:sound], end_of[:sound]
        self._record = np.searchsorted(ends, self._start, side="right")
        return min(count, self._unusual(rules, count))

    def _unusual(self, rules: EntryRules, count: int) -> int:
        """Return the first record with its own checksum, light queues, or a repeated UNIQ_KEY, KEYS or TAGS."""
        self.unique, self.key_list, self.tag = (self._named(name) for name in (b"UNIQ_KEY", b"KEYS", b"TAGS"))
        first = count
        for twice in (self.unique, self.key_list, self.tag):
            records = self._record[twice]
            again = np.flatnonzero(records[1:] == records[:-1])
            if len(again):
                first = min(first, int(records[again[0]]))
        others = [b"__CRC32#"] + ([b"INNER_MULTI_DISPATCH"] if rules.light_queues else [])
        for name in others:
            found = self._named(name)
            if len(found):
                first = min(first, int(self._record[found[0]]))
        return first

    def _named(self, name: bytes) -> Any:
        """Return the indexes of the pairs with this name."""
        chosen = np.flatnonzero(self._equals - self._start == len(name))
        texts = gather(self._text, self._start[chosen], len(name))
        return chosen[texts == np.void(name)]

    def codes(self, count: int) -> Any:
        """Return tags codes, 0 without a tag."""
        found = np.zeros(len(self._ends), dtype=np.int64)
        chosen = self.tag[self._record[self.tag] < count]
        places, lengths = self._equals[chosen] + 1, self._end[chosen] - self._equals[chosen] - 1
        seed = np.zeros(len(chosen), dtype=np.uint32)
        found[self._record[chosen]] = self.hashes(places, lengths, seed).view(np.int32)
        return found[:count]

    def keys(self, count: int, *, tags: bool) -> tuple[Any, Any, Any, Any]:
        """Return record, position, length and whether it is a tag, for each key in index order."""
        records, places, lengths, ranks = [], [], [], []
        unique = self.unique[self._record[self.unique] < count]
        listed = self.key_list[self._record[self.key_list] < count]
        records.append(self._record[unique])
        places.append(self._equals[unique] + 1)
        lengths.append(self._end[unique] - self._equals[unique] - 1)
        ranks.append(np.zeros(len(unique), dtype=np.int64))
        blanks = np.flatnonzero(self._text == 32)
        start, end = self._equals[listed] + 1, self._end[listed]
        several = np.searchsorted(blanks, start) != np.searchsorted(blanks, end)
        records.append(self._record[listed[~several]])
        places.append(start[~several])
        lengths.append((end - start)[~several])
        ranks.append(np.ones(int((~several).sum()), dtype=np.int64))
        split: list[tuple[int, int, int, int]] = []
        for number in np.flatnonzero(several).tolist():
            place, rank = int(start[number]), 1
            for piece in self._text[place : int(end[number])].tobytes().split(b" "):
                if piece:
                    split.append((int(self._record[listed[number]]), place, len(piece), rank))
                    rank += 1
                place += len(piece) + 1
        more = np.array(split, dtype=np.int64).reshape(-1, 4)
        records.append(more[:, 0])
        places.append(more[:, 1])
        lengths.append(more[:, 2])
        ranks.append(more[:, 3])
        if tags:
            tagged = self.tag[self._record[self.tag] < count]
            records.append(self._record[tagged])
            places.append(self._equals[tagged] + 1)
            lengths.append(self._end[tagged] - self._equals[tagged] - 1)
            ranks.append(np.full(len(tagged), 1 << 20, dtype=np.int64))
        record, key_rank = np.concatenate(records), np.concatenate(ranks)
        order = np.argsort(record << 21 | key_rank, kind="stable")
        return (
            record[order],
            np.concatenate(places)[order],
            np.concatenate(lengths)[order],
            (key_rank[order] >= 1 << 20).astype(np.int64),
        )

    def hashes(self, places: Any, lengths: Any, seed: Any) -> Any:
        """Return Java's hash of each ASCII text, continued from *seed*, as uint32."""
        found = seed.astype(np.uint32)
        for length in np.unique(lengths).tolist():
            chosen = np.flatnonzero(lengths == length)
            columns = np.ascontiguousarray(
                gather(self._text, places[chosen], length).view(np.uint8).reshape(-1, length).T
            )
            hashed = found[chosen]
            for column in columns:
                hashed *= np.uint32(31)
                hashed += column
            found[chosen] = hashed
        return found
