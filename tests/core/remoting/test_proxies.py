"""Trusted senders of PROXY headers."""

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.remoting.preamble import PROXY_SETTING, TrustedProxies, trusted_proxies


def proxies(text):
    settings = Settings([PROXY_SETTING])
    settings.set(PROXY_SETTING.key, text, "broker.conf line 3")
    return trusted_proxies(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"])
def test_programs_of_this_machine_are_believed(host):
    TrustedProxies().check(host)


@pytest.mark.parametrize("host", ["10.1.2.3", "::ffff:10.1.2.3", "fe80::1%eth0", ""])
def test_nobody_else_is(host):
    with pytest.raises(RemoteProtocolError, match="add .*to proxyProtocolAddresses"):
        TrustedProxies().check(host)


@pytest.mark.parametrize("text", ["10.1.2.3", "192.168.0.1, 10.1.0.0/16", "10.1.2.9/16"])
@pytest.mark.parametrize("host", ["10.1.2.3", "::ffff:10.1.2.3", "127.0.0.1"])
def test_addresses_and_networks_that_are_named_are(text, host):
    proxies(text).check(host)


def test_what_is_no_address_is_told_with_its_place():
    with pytest.raises(ConfigError, match="broker.conf line 3: proxyProtocolAddresses: 'proxy.local' .* 10.0.0.0/8"):
        proxies("proxy.local")
