"""Block filters alone: their file, filters in memory, and lookups of a subscription."""

import pytest

from gantrymq.errors import FormatError
from gantrymq.model.queue import Queue
from gantrymq.world.real import RealFiles
from gantrymq_filter_sql92.blocks import table as table_module
from gantrymq_filter_sql92.blocks.block import LastMessage, build_block, read_block, write_block
from gantrymq_filter_sql92.blocks.counters import BlockCounters
from gantrymq_filter_sql92.blocks.files import BlockFiles
from gantrymq_filter_sql92.blocks.skipping import MOST_NEEDLES, SkippingFilter
from gantrymq_filter_sql92.blocks.table import MOST_KEPT, MOST_NAMES, BlockTable
from gantrymq_filter_sql92.equalities import required_equalities
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import MatchingMessages

T0 = Queue("T", 0)
ALL_KEYS = [f"a\x01{number}" for number in range(64)]


def block_of(first=0, entries=64, names=("a",), last=(5, 6)):
    texts = [b"a\x01%d\x02b\x01x\x02" % number for number in range(entries)]
    return build_block(first, entries, LastMessage(*last), texts, frozenset(names), 1)


def test_a_block_comes_back_from_its_file():
    block = block_of(names=("a", "b"))
    again = read_block(write_block(block))
    assert (again.first, again.entries, again.last, again.names) == (0, 64, LastMessage(5, 6), frozenset("ab"))
    assert all(again.may_hold([key]) for key in ALL_KEYS)
    strangers = sum(again.may_hold([f"a\x01x{number}"]) for number in range(1000))
    assert strangers < 50  # of 1 %
    assert again.may_hold(["b\x01x"]) and not again.may_hold(["b\x01y"])


def test_a_block_of_nothing_says_no():
    empty = read_block(write_block(build_block(0, 64, LastMessage(0, 0), [b""] * 64, frozenset("a"), 1)))
    assert not empty.may_hold(ALL_KEYS)


def test_every_damage_is_noticed():
    data = write_block(block_of())
    for position in range(len(data)):
        wrong = bytearray(data)
        wrong[position] ^= 1
        with pytest.raises(FormatError):
            read_block(bytes(wrong))
    for length in range(0, len(data), 7):
        with pytest.raises(FormatError):
            read_block(data[:length])


def test_files_are_kept_found_and_removed(tmp_path):
    files = BlockFiles(RealFiles(), tmp_path / "blocks", 64)
    for number in (0, 1, 3):
        files.save(T0, block_of(64 * number))
    found, removed = files.load(T0, 0, 4)
    assert ([block.first for block in found], removed) == ([0, 64, 192], 0)
    damaged = tmp_path / "blocks" / "T" / "0" / f"{64:020d}"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    found, removed = files.load(T0, 0, 4)
    assert ([block.first for block in found], removed) == ([0, 192], 1)
    assert not damaged.exists()
    files.clean(T0, 64)
    assert [block.first for block in files.load(T0, 0, 4)[0]] == [192]
    assert files.queues() == [T0]
    files.clean(T0, None)
    assert files.queues() == []
    assert list((tmp_path / "blocks").iterdir()) == []


def test_files_of_another_size_are_removed(tmp_path):
    BlockFiles(RealFiles(), tmp_path, 64).save(T0, block_of(128))
    assert BlockFiles(RealFiles(), tmp_path, 128).load(T0, 0, 4) == ([], 1)
    BlockFiles(RealFiles(), tmp_path, 64).save(T0, block_of(64))
    BlockFiles(RealFiles(), tmp_path, 128).clean(T0, 0)
    assert BlockFiles(RealFiles(), tmp_path, 64).queues() == []


def test_filters_go_when_their_topic_is_another_one():
    table, config = BlockTable(), object()
    table.is_of("T", config)
    table.add(T0, 0, block_of())
    table.is_of("T", config)
    assert table.get(T0, 0) is not None
    table.is_of("T", object())
    assert table.get(T0, 0) is None


def test_the_table_is_bounded():
    table, block = BlockTable(), block_of()
    for number in range(MOST_KEPT + 10):
        table.add(T0, number, block)
        table.get(T0, 0)
    assert len(table) == MOST_KEPT
    assert table.get(T0, 0) is block and table.get(T0, 1) is None
    for number in range(MOST_NAMES + 5):
        table.want("T", frozenset({f"n{number}"}), float(number))
    assert table.names("T", 0.0) == {f"n{number}" for number in range(5, MOST_NAMES + 5)}
    assert table.names("T", MOST_NAMES + 4.0) == {f"n{MOST_NAMES + 4}"}
    assert table.names("U", 0.0) == frozenset()


def test_the_table_is_bounded_in_bytes(monkeypatch):
    block = block_of()
    monkeypatch.setattr(table_module, "MOST_BYTES", 10 * block.byte_count + 1)
    table = BlockTable()
    for number in range(30):
        table.add(T0, number, block)
        table.add(T0, number, block)
    assert len(table) == 10 and table.get(T0, 29) is block
    table.forget_before({T0: 25})
    assert len(table) == 5
    table.forget("T")
    for number in range(10):
        table.add(T0, number, block)
    assert len(table) == 10 and table.get(T0, 0) is block


class Blocks:
    def candidates(self, asker, queue, queue_offset):
        return queue_offset, queue_offset + 64


def skipping(text, counts=None):
    expression = compiled(text)
    pairs = required_equalities(expression.tree)
    return SkippingFilter(
        MatchingMessages(expression),
        expression.matches,
        expression.matching,
        pairs,
        Blocks(),
        counts or BlockCounters(),
    )


def test_what_a_filter_offers_the_store():
    found = skipping("a = 'x' OR b = 1")
    assert found.needles == (b"a\x01x", b"b\x01")
    assert (found.keys, found.names) == (("a\x01x", "b\x021.0"), frozenset("ab"))
    assert found.candidates(T0, 3) == (3, 67)
    found = skipping("a > 1")
    assert (found.needles, found.keys) == ((), None)
    assert found.candidates(T0, 3) == (3, 1 << 62)
    many = ", ".join(f"'{number}'" for number in range(MOST_NEEDLES + 1))
    found = skipping(f"a IN ({many})")
    assert found.needles == () and len(found.keys) == MOST_NEEDLES + 1


def test_a_block_that_was_read_for_nothing_is_a_false_positive():
    counts = BlockCounters()
    found = skipping("a = 'x'", counts)
    no, yes = b"a\x01y\x02", b"a\x01x\x02"

    assert not found.reads(T0, 0, from_start=True, known=True)
    assert not found.match_properties(no)
    assert not found.reads(T0, 0, from_start=False, known=True)  # the next pull
    assert found.reads(T0, 1, from_start=True, known=True)
    assert found.match_properties(yes)
    assert not found.reads(T0, 2, from_start=True, known=False)
    assert not found.reads(T0, 3, from_start=False, known=True)  # its beginning was not seen
    assert not found.reads(T0, 4, from_start=True, known=True)
    other = Queue("T", 1)
    assert not found.reads(other, 0, from_start=True, known=True)
    assert found.match_properties(yes)  # of the other queue
    assert found.reads(T0, 5, from_start=True, known=True)
    assert not found.reads(other, 1, from_start=True, known=True)
    assert counts.evaluated == 3
