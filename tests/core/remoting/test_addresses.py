import pytest

from gantrymq.errors import LocalProtocolError
from gantrymq.model.hosts import format_address, pack_peer
from gantrymq.remoting.client import parse_address


@pytest.mark.parametrize(
    ("text", "address"), [("h:1", ("h", 1)), ("[::1]:65535", ("::1", 65535)), (" 10.0.0.1:80 ", ("10.0.0.1", 80))]
)
def test_addresses_both_ways(text, address):
    assert parse_address(text) == address
    assert format_address(*address) == text.strip()


@pytest.mark.parametrize("text", ["", "h", "h:", ":1", "h:65536", "h:-1", "h:x"])
def test_what_is_no_address(text):
    with pytest.raises(LocalProtocolError, match="host:port"):
        parse_address(text)


def test_packed_hosts():
    assert pack_peer("127.0.0.1", 10911) == bytes.fromhex("7f00000100002a9f")
    assert pack_peer("::ffff:127.0.0.1", 10911) == bytes.fromhex("7f00000100002a9f")
    assert pack_peer("::1%lo", 1) == bytes(15) + b"\x01\0\0\0\x01"
    assert pack_peer("somewhere", 1) == bytes(7) + b"\x01"
