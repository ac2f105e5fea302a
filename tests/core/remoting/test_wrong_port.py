"""Requests that reach the other kind of server."""

import pytest

from gantrymq.remoting.codes import RequestCode, broker_port_message
from gantrymq_nameserver.wrong_port import wrong_port_message


def test_a_pull_at_a_name_server():
    assert wrong_port_message(RequestCode.PULL_MESSAGE) == (
        "request 11 PULL_MESSAGE is for a broker, and this port is a name server's; a topic's route names its brokers' "
        "addresses, usually at port 10911"
    )


def test_a_route_lookup_at_a_broker():
    assert broker_port_message(RequestCode.GET_ROUTEINFO_BY_TOPIC) == (
        "request 105 GET_ROUTEINFO_BY_TOPIC is for a name server, and this port is a broker's; name servers are "
        "usually at port 9876"
    )


@pytest.mark.parametrize("code", [9999, -1, RequestCode.CHECK_TRANSACTION_STATE])
def test_what_neither_serves_is_nobody_s(code):
    assert broker_port_message(code) is None
    assert wrong_port_message(code) is None


def test_no_request_is_for_both():
    assert not [code for code in RequestCode if broker_port_message(code) and wrong_port_message(code)]
