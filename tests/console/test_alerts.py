"""Alerts: which are told when, and their delivery to a fake receiver."""

from __future__ import annotations

import asyncio
import json
import ssl

import attrs
import h11
import pytest
from certificates import make_certificate

from gantrymq.errors import ConfigError
from gantrymq.world.real import real_world
from gantrymq_admin.asking import Missing
from gantrymq_console import alerting
from gantrymq_console.alerting import GIVEN_UP_S, Alerting, Webhook
from gantrymq_console.data.attention import Alerts, Attention, Problem, Thresholds
from gantrymq_console.data.brokers import BrokerState, Overview
from gantrymq_console.data.cluster import Aged
from gantrymq_console.data.groups import GroupRow
from gantrymq_console.data.nameservers import NameServers, NameServerState
from gantrymq_console.values import Long
from gantrymq_testing.simulated import simulate

WELL = Attention((), Overview(()), NameServers(()), (), (), 0, None, None, ())
BROKER = BrokerState("c", "b", 0, "10.0.0.1:10911", True, True, disk_used=0.5)


def group(late_ms, **fields):
    row = {field.name: None for field in attrs.fields(GroupRow)} | {"name": "billing", "late_at_most": False}
    return GroupRow(**{**row, "lag": Long(17), "late_ms": late_ms, **fields})


def late(late_ms, **fields):
    return attrs.evolve(WELL, late=(group(late_ms, **fields),))


def words(alerts):
    return [(each.id, each.status) for each in alerts]


def test_an_alert_is_told_once_and_its_end_once():
    alerts = Alerts(Thresholds())
    told = [words(alerts.update(late(400_000), {}, now)) for now in range(1000, 6000, 1000)]
    assert told == [[], [("group_late/billing", "firing")], [], [], []]
    told = [alerts.update(WELL, {}, now) for now in range(6000, 10_000, 1000)]
    assert [words(each) for each in told] == [[], [], [("group_late/billing", "resolved")], []]
    (ended,) = told[2]
    assert (ended.since_ms, ended.resolved_ms, ended.value) == (1000, 8000, 400.0)
    assert ended.summary == "Resolved: Group billing is 400 s behind: 17 messages wait."


def test_a_problem_seen_once_is_not_told():
    alerts = Alerts(Thresholds())
    for found in (late(400_000), WELL, late(400_000), WELL, WELL, WELL):
        assert alerts.update(found, {}, 1) == []


@pytest.mark.parametrize("found", [late(299_000), late(400_000, lag=Long(0)), late(400_000, late_at_most=True)])
def test_below_a_threshold_or_unknown_there_is_no_alert(found):
    alerts = Alerts(Thresholds())
    assert [alerts.update(found, {"billing": 1}, 1) for _ in range(3)][1:] != [[], []]  # of the dead letter alone
    alerts = Alerts(Thresholds(dead_letters=2))
    assert [alerts.update(found, {"billing": 1}, 1) for _ in range(3)] == [[], [], []]


def test_a_group_is_not_resolved_while_a_broker_is_silent():
    alerts = Alerts(Thresholds())
    for _ in range(2):
        alerts.update(late(400_000), {}, 1)
    silent = attrs.evolve(WELL, brokers=Overview((attrs.evolve(BROKER, answers=False),)))
    lacking = attrs.evolve(WELL, missing=(Missing("b", "timeout"),))
    for found in (silent, lacking, silent, lacking):
        assert alerts.update(found, {}, 1) == []
    assert words([*alerts.update(WELL, {}, 1), *alerts.update(WELL, {}, 1), *alerts.update(WELL, {}, 1)]) == [
        ("group_late/billing", "resolved")
    ]


def test_dead_letters_are_not_resolved_while_the_history_is_unknown():
    alerts = Alerts(Thresholds())
    for _ in range(2):
        alerts.update(WELL, {"billing": 3}, 1)
    assert [alerts.update(WELL, None, 1) for _ in range(4)] == [[]] * 4
    told = [words(alerts.update(WELL, {}, 1)) for _ in range(3)]
    assert told == [[], [], [("dead_letters/billing", "resolved")]]


def test_no_broker_is_resolved_while_no_name_server_answers():
    alerts = Alerts(Thresholds())
    gone = attrs.evolve(WELL, problems=(Problem("gone", "bad", "b", {"name": "b"}),))
    for _ in range(2):
        alerts.update(gone, {}, 1)
    blind = attrs.evolve(WELL, name_servers=NameServers((NameServerState("n", False),)))
    assert [alerts.update(blind, {}, 1) for _ in range(4)] == [[]] * 4


def test_every_kind():
    problems = (
        Problem("gone", "bad", "b", {"name": "b"}),
        Problem("refuses", "bad", "b", {"name": "b"}, sentence='the disk is "full"'),
        Problem("no_name_server", "bad", ""),
        Problem("nobody", "warn", "billing", {"group": "billing", "count": 1}),
    )
    full = attrs.evolve(BROKER, disk_used=0.91)
    found = attrs.evolve(late(400_000), problems=problems, brokers=Overview((full,)))
    alerts = Alerts(Thresholds())
    alerts.update(found, {"billing": 3}, 1)
    told = alerts.update(found, {"billing": 3}, 2)
    assert [each.kind for each in told] == [
        "broker_gone",
        "store_refuses",
        "name_server_gone",
        "disk",
        "group_late",
        "dead_letters",
    ]
    assert told[1].summary == 'Broker b refuses messages: the disk is "full"'


# --- delivery ---


class Receiver(asyncio.Protocol):
    """A server that answers each request with the next of *statuses*; None: never."""

    def __init__(self, statuses, bodies):
        self.statuses, self.bodies = statuses, bodies
        self.http = h11.Connection(h11.SERVER)
        self.body = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.http.receive_data(data)
        while not isinstance(event := self.http.next_event(), type) and event is not h11.NEED_DATA:
            if isinstance(event, h11.Request):
                self.request = event
            elif isinstance(event, h11.Data):
                self.body += event.data
            else:
                status = self.statuses.pop(0) if self.statuses else 204
                self.bodies.append((bytes(self.request.target), json.loads(self.body)))
                if status is not None:
                    answer = h11.Response(status_code=status, headers=[("Content-Length", "0")])
                    self.transport.write(self.http.send(answer) + self.http.send(h11.EndOfMessage()))
                return


def delivered(work, *statuses, listening=True):
    """Run ``await work(webhook, bodies, world)`` with a receiver."""

    async def main(world):
        bodies, left = [], list(statuses)
        listener = await world.network.listen("127.0.0.1", 8000, lambda: Receiver(left, bodies))
        if not listening:
            await listener.close()
        webhook = Webhook(world, "http://127.0.0.1:8000/hook?key=1")
        try:
            return await work(webhook, bodies, world)
        finally:
            await webhook.close()
            await listener.close()

    return simulate(1, main, limit_s=20_000)


def test_bodies_are_sent_in_order():
    async def work(webhook, bodies, world):
        for number in range(3):
            webhook.send({"number": number})
        await world.clock.sleep(5)
        assert bodies == [(b"/hook?key=1", {"number": number}) for number in range(3)]
        assert (webhook.delivered, webhook.failed) == (3, 0)

    delivered(work)


@pytest.mark.parametrize("status", [500, 302, None])
def test_a_failure_is_tried_again_with_longer_pauses(status, caplog):
    async def work(webhook, bodies, world):
        webhook.send({"number": 1})
        webhook.send({"number": 2})
        await world.clock.sleep(1 + 2 + 4 + 1 + (30 if status is None else 0))
        assert [body["number"] for _, body in bodies] == [1, 1, 1, 1, 2]
        assert (webhook.delivered, webhook.failed) == (2, 3)

    delivered(work, status, status, status)
    (said,) = {each.getMessage() for each in caplog.records}  # one warning for a body, without path and key
    assert said.startswith("the webhook at 127.0.0.1 failed: ") and "hook?" not in said
    assert ("not followed: give the address" in said) == (status == 302)


def test_a_receiver_that_is_not_there_costs_nothing_and_is_given_up():
    async def work(webhook, _bodies, world):
        for number in range(300):
            webhook.send({"number": number})
        await world.clock.sleep(100)
        assert 5 <= webhook.failed <= 10 and len(webhook._waiting) == 99
        await world.clock.sleep(GIVEN_UP_S + 100)
        assert len(webhook._waiting) == 98

    delivered(work, listening=False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://x/secret",
        "http:///secret",
        "http://u:secret@x/",
        "http://x:0/secret",
        "http://x:99999/secret",
        "http://[x/secret",
        "http://x/a secret",
        f"http://{'x' * 70}.example/secret",
    ],
)
def test_an_address_that_is_none_is_one_sentence_without_it(text):
    with pytest.raises(ConfigError, match="--webhook") as found:
        Webhook(real_world(), text)
    assert "secret" not in str(found.value)


def test_the_console_looks_every_ten_seconds_and_sends_what_changed(visitor, monkeypatch):
    sent = []

    async def found(_cluster, _history):
        return Aged(late(400_000), 1)

    class Hook:
        send = staticmethod(sent.append)

        async def close(self):
            sent.append("closed")

    monkeypatch.setattr(alerting, "attention", found)

    async def run():
        watching = Alerting(visitor.console, Hook(), Thresholds(), visitor.console.past)
        for _ in range(3):
            await watching.look()
        await watching.close()

    visitor.running.run(run())
    body, closed = sent
    assert closed == "closed" and body["version"] == 1 and body["name_servers"] == visitor.running.namesrv
    assert [each["id"] for each in body["alerts"]] == ["group_late/billing"]
    json.dumps(body)


@pytest.mark.parametrize(("trusted", "name"), [(True, "localhost"), (False, "localhost"), (True, "127.0.0.1")])
def test_https_needs_a_certificate_for_the_name_from_a_trusted_authority(tmp_path, monkeypatch, trusted, name):
    chain = make_certificate(tmp_path, "localhost")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", chain)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(chain, str(tmp_path / "localhost.key"))

    async def main():
        bodies = []
        server = await asyncio.get_running_loop().create_server(
            lambda: Receiver([204], bodies), "localhost", 0, ssl=serving
        )
        port = server.sockets[0].getsockname()[1]
        webhook = Webhook(real_world(), f"https://{name}:{port}/hook")
        problem = await webhook._attempt(b'{"number": 1}')
        server.close()
        await server.wait_closed()
        return problem, bodies

    problem, bodies = asyncio.run(main())
    if trusted and name == "localhost":
        assert (problem, bodies) == (None, [(b"/hook", {"number": 1})])
    else:
        assert "certificate verify failed" in problem and bodies == []
