import random

import pytest

from gantrymq.client.routing.nameservers import NameServerList, parse_namesrv, resolve_namesrv
from gantrymq.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", ("a:1",)),
        (" a:1 ; b:2;;a:1", ("a:1", "b:2")),
        ("a:1,b:2", ("a:1", "b:2")),
        ("http://x/y/a:1", ("a:1",)),
        ("[::1]:9876", ("[::1]:9876",)),
    ],
)
def test_list_is_split(text, expected):
    assert parse_namesrv(text, "-n") == expected


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:70000", ";", "a:1;b"])
def test_odd_list_is_refused_with_a_sentence(text):
    with pytest.raises(ConfigError, match="-n: "):
        parse_namesrv(text, "-n")


def test_given_then_environment_then_default():
    assert resolve_namesrv("a:1", {"NAMESRV_ADDR": "b:2"}) == ("a:1",)
    assert resolve_namesrv(None, {"NAMESRV_ADDR": "b:2"}) == ("b:2",)
    assert resolve_namesrv(None, {}) == ("127.0.0.1:9876",)


def test_odd_environment_is_named():
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        resolve_namesrv(None, {"NAMESRV_ADDR": "nonsense"})


def test_server_is_kept_until_it_fails_then_the_next_one_is_asked():
    servers = NameServerList(("a:1", "b:2", "c:3"), random.Random(1))
    first = servers.choose()
    assert servers.choose() == first
    servers.failed(first)
    second = servers.choose()
    servers.failed(second)
    assert {first, second, servers.choose()} == {"a:1", "b:2", "c:3"}


def test_failure_of_another_server_changes_nothing():
    servers = NameServerList(("a:1", "b:2"), random.Random(1))
    first = servers.choose()
    servers.failed("a:1" if first == "b:2" else "b:2")
    assert servers.choose() == first


def test_many_clients_spread_over_all_servers():
    begun = [NameServerList(("a:1", "b:2", "c:3"), random.Random(seed)).choose() for seed in range(60)]
    assert min(begun.count(address) for address in ("a:1", "b:2", "c:3")) >= 10


def test_other_servers_are_asked_and_the_chosen_one_stays_if_it_is_among_them():
    servers = NameServerList(("a:1", "b:2"), random.Random(1))
    chosen = servers.choose()
    other = "b:2" if chosen == "a:1" else "a:1"
    assert servers.update((chosen, "c:3")) == (other,)
    assert servers.choose() == chosen
    assert servers.addresses == (chosen, "c:3")
    assert servers.update(("d:4", "e:5")) == (chosen, "c:3")
    assert servers.choose() in ("d:4", "e:5")


def test_the_same_servers_in_another_order_are_no_change():
    servers = NameServerList(("a:1", "b:2", "c:3"), random.Random(1))
    before = [each for _ in range(3) if (each := servers.choose()) and servers.failed(each) is None]
    assert servers.update(("c:3", "b:2", "a:1")) == ()
    after = [each for _ in range(3) if (each := servers.choose()) and servers.failed(each) is None]
    assert after == before
