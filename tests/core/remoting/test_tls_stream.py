"""The TLS machine alone: two of them joined by bytes, no socket."""

import pytest

from gantrymq.remoting.tls_contexts import TlsClient, load_chain, server_context
from gantrymq.remoting.tls_transport import TlsStream


@pytest.fixture
def pair(certificates):
    context = server_context("none", False, "")
    load_chain(context, certificates.server, certificates.key(certificates.server), "", "tls.server")
    client = TlsStream(TlsClient().context(), server_side=False)
    server = TlsStream(context, server_side=True)
    client.start()
    server.start()
    return client, server


def shake_hands(client, server, size=1 << 20):
    for _ in range(10):
        for one, other in ((client, server), (server, client)):
            data = one.take()
            for at in range(0, len(data), size):
                assert other.receive(data[at : at + size]) == b""
    assert client.ready
    assert server.ready


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_bytes_go_both_ways_whatever_the_size_of_reads(pair, size):
    client, server = pair
    shake_hands(client, server, size)
    for one, other in ((client, server), (server, client)):
        body = bytes(range(256)) * 300
        one.send(body)
        records = one.take()
        assert body[:64] not in records
        assert b"".join(other.receive(records[at : at + 1000]) for at in range(0, len(records), 1000)) == body


def test_the_end_is_announced(pair):
    client, server = pair
    shake_hands(client, server)
    client.send(b"last words")
    client.end()
    assert server.receive(client.take()) == b"last words"
    assert server.ended
    assert server.failure is None
    assert server.receive(b"more") == b""


def test_no_end_before_the_handshake(pair):
    client, server = pair
    server.end()
    assert server.take() == b""
    assert not client.ended


def test_what_is_no_tls_fails_with_words_and_an_alert(pair):
    _, server = pair
    assert server.receive(b"\x16\x03\x01\x00\x05nonsense") == b""
    assert server.failure
    assert not server.ready
    assert "_ssl.c" not in server.failure
    assert server.take()[:1] == b"\x15"


def test_a_record_that_was_tampered_with_fails_and_what_came_before_it_counts(pair):
    client, server = pair
    shake_hands(client, server)
    client.send(b"good")
    good = client.take()
    client.send(b"evil")
    evil = bytearray(client.take())
    evil[-1] ^= 1
    assert server.receive(good + evil) == b"good"
    assert server.failure == "decryption failed or bad record mac"
    server.send(b"dropped")
    assert server.receive(good) == b""
