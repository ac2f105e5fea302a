"""Host names and IP addresses."""

from __future__ import annotations

import pytest

from gantrymq.model.hosts import is_host_name, is_ip_address, parse_address, split_addresses


@pytest.mark.parametrize(
    "host", ["broker", "broker-0.example", "a.b.svc.cluster.local.", "1broker", "my_host", "x" * 63, "xn--bcher-kva.ch"]
)
def test_host_names(host):
    assert is_host_name(host)
    assert not is_ip_address(host)


@pytest.mark.parametrize(
    "host", ["", ".", "a..b", "-a", "a-", "a b", "a:1", "a/b", "a,b", "a=b", "10.0.0", "300.1.1.1", "x" * 64, "ä.de"]
)
def test_what_is_neither(host):
    assert not is_host_name(host)
    assert not is_ip_address(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"])
def test_ip_addresses(host):
    assert is_ip_address(host)
    assert not is_host_name(host)


def test_several_addresses_are_not_taken_as_one():
    assert split_addresses(" a:1;b:2, [::1]:3;;") == ["a:1", "b:2", "[::1]:3"]
    for text in ("a:1,b:2", "http://a:1", "a/b:1"):
        with pytest.raises(ValueError, match="is not host:port"):
            parse_address(text)
