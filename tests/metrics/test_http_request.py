"""The supported subset of HTTP."""

import pytest

from gantrymq_metrics.http_request import MAX_HEAD_BYTES, HttpResponse, RequestHead, encode_response, refuse


@pytest.mark.parametrize(
    ("head", "path"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "/metrics"),
        (b"GET /metrics?name=up HTTP/1.0\r\n\r\n", "/metrics"),
        (b"GET / HTTP/1.1\r\n\r\nand a body", "/"),
    ],
)
def test_a_path_is_found_without_its_query(head, path):
    assert RequestHead().feed(head) == path


def test_a_head_may_come_in_any_pieces():
    head = RequestHead()
    request = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    assert [head.feed(request[at : at + 1]) for at in range(len(request))] == [None] * (len(request) - 1) + ["/healthz"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"head /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01 what is\r\n\r\n", 400),
        (b"GET /metrics SPDY/3\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /" + b"a" * MAX_HEAD_BYTES, 431),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
    ],
)
def test_what_is_not_a_plain_get_is_refused(head, status):
    assert RequestHead().feed(head).status == status


def test_a_response_says_its_length_and_closes():
    assert encode_response(HttpResponse(200, b"{}", "application/json")) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n"
        b"Cache-Control: no-store\r\n\r\n{}"
    )


def test_a_wrong_method_is_told_the_right_one():
    assert b"\r\nAllow: GET, HEAD\r\n" in encode_response(refuse(405, "no"))


def test_head_gets_the_head_of_the_response_to_get_alone():
    head = RequestHead()
    assert head.feed(b"HEAD /healthz?full HTTP/1.1\r\n\r\n") == "/healthz"
    response = HttpResponse(200, b"ok\n", more=(b"more",))
    assert encode_response(response, head_only=head.head_only) == encode_response(response).removesuffix(b"ok\n")
    assert not RequestHead().head_only
