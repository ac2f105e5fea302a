"""The key-value table and its file."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gantrymq.errors import RequestError
from gantrymq_nameserver.kv import KvConfig


@pytest.fixture
def path(tmp_path):
    return tmp_path / "namesrv" / "kvConfig.json"


@pytest.fixture
def kv(world, path):
    kv = KvConfig(world, path)
    kv.load()
    return kv


def test_a_missing_file_is_an_empty_table(kv, path):
    assert kv.get("N", "k") is None
    assert kv.namespace("N") is None
    assert not path.exists()


def test_a_path_through_a_file_is_an_empty_table(world, tmp_path, caplog):
    """As with ``--store FILE``: the store reports its error."""
    (tmp_path / "file").write_text("")
    KvConfig(world, tmp_path / "file" / "namesrv" / "kvConfig.json").load()
    assert caplog.messages == []


def test_changes_are_in_the_file_in_rocketmq_s_form(kv, path, world):
    asyncio.run(kv.put("ORDER_TOPIC_CONFIG", "主题", "broker-a:4;broker-b:8"))
    asyncio.run(kv.put("N", "k", 'a"b'))
    assert path.read_text("utf-8") == (
        '{"configTable":{"ORDER_TOPIC_CONFIG":{"主题":"broker-a:4;broker-b:8"},"N":{"k":"a\\"b"}}}'
    )
    again = KvConfig(world, path)
    again.load()
    assert again.namespace("N") == {"k": 'a"b'}
    assert again.get("ORDER_TOPIC_CONFIG", "主题") == "broker-a:4;broker-b:8"


def test_a_namespace_outlives_its_last_key(kv, path):
    asyncio.run(kv.put("N", "k", "v"))
    asyncio.run(kv.delete("N", "k"))
    asyncio.run(kv.delete("N", "k"))
    asyncio.run(kv.delete("M", "k"))
    assert (kv.namespace("N"), kv.namespace("M")) == ({}, None)
    assert path.read_text() == '{"configTable":{"N":{}}}'


def test_what_is_handed_out_is_a_copy(kv):
    asyncio.run(kv.put("N", "k", "v"))
    table = kv.namespace("N")
    assert table is not None
    table["k"] = "other"
    assert kv.get("N", "k") == "v"


@pytest.mark.parametrize("text", ["{", "[]", '{"configTable":[]}', '{"configTable":{"N":1}}', "{}", "", "\udcff"])
def test_a_bad_file_is_tolerated_with_a_line(world, path, text, caplog):
    path.parent.mkdir()
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    kv = KvConfig(world, path)
    with caplog.at_level(logging.WARNING):
        kv.load()
    assert "kvConfig.json cannot be read" in caplog.text
    assert kv.namespace("N") is None
    asyncio.run(kv.put("N", "k", "v"))  # the next change does not write over the bad text
    broken = path.with_name("kvConfig.json.broken")
    assert broken.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_a_change_that_cannot_be_written_is_not_made(world, tmp_path):
    (tmp_path / "file").write_text("in the way")
    kv = KvConfig(world, tmp_path / "file" / "kvConfig.json")
    with pytest.raises(RequestError, match="cannot be written"):
        asyncio.run(kv.put("N", "k", "v"))
    assert kv.get("N", "k") is None


def test_changes_at_once_are_all_kept(kv):
    async def change() -> None:
        await asyncio.gather(*(kv.put("N", str(i), "v") for i in range(10)))

    asyncio.run(change())
    assert kv.namespace("N") == {str(i): "v" for i in range(10)}
