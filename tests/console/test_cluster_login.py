"""Logging in with an account of the cluster: the cluster decides, and each user has a client that signs."""

from __future__ import annotations

import json
import logging

import pytest
from accounts import GUARDED, AccountsPlugin, accounts_of
from console_visitor import Visitor
from manual_clock import ManualClock

from gantrymq.client import Credentials
from gantrymq.errors import ClientError, ConfigError
from gantrymq.world.real import real_world
from gantrymq_console.access.cluster_accounts import PROVED_S, ClusterAccounts, _accepts
from gantrymq_console.access.exposure import EntranceOptions, entrance
from gantrymq_console.access.sessions import Rates
from gantrymq_console.web import user_consoles
from gantrymq_console.web.user_consoles import UNUSED_S
from gantrymq_testing.running_broker import RunningBroker

pytest.importorskip("gantrymq_storage_memory")

SECRET = "guest-secret"


@pytest.fixture(scope="module")
def gantrymq_broker(tmp_path_factory):
    with RunningBroker(tmp_path_factory.mktemp("broker"), GUARDED, [AccountsPlugin()]) as running:
        yield running


@pytest.fixture
def door(gantrymq_broker):
    with ClusterDoor(gantrymq_broker) as found:
        yield found


class ClusterDoor:
    """A console with log-in by the cluster of *running*; use it as a context manager."""

    def __init__(self, running):
        self.running = running
        self.visitor = Visitor(running)
        self.clock = ManualClock()
        self.accounts = ClusterAccounts(running.cluster.world, running.namesrv)
        self.accounts._clock = self.accounts.sessions._clock = self.accounts._attempts._clock = self.clock
        self.visitor.identities = self.accounts

    def __enter__(self):
        self.visitor.__enter__()
        self.visitor.app._rates = Rates(self.clock)
        self.users = self.visitor.app._users
        self.users._clock = self.clock
        return self

    def __exit__(self, *problem):
        self.running.run(self.visitor.app.close())
        self.visitor.__exit__(*problem)

    def log_in(self, name="guest", secret=SECRET, to="/account"):
        """Open the page to log in, and send its form."""
        return self.visitor.submit(self.visitor.get(f"/login?to={to}"), "/login", name=name, password=secret)

    def change(self, **accounts):
        """Change the accounts of the broker, from the next request on."""
        found = accounts_of(self.running.cluster)
        found.text = json.dumps({**json.loads(found.text), **accounts})
        self.running.call(self.running.broker.access.forget)


def test_a_user_of_the_cluster_logs_in(door):
    page = door.log_in()
    assert page.status == 200 and "You are guest, a user of the cluster." in page.text
    assert [(each.action, each.user, each.result) for each in door.visitor.audit.entries] == [
        ("login.title", "guest", "done")
    ]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("guest", "wrong-secret"),
        ("nobody", SECRET),
        ("", SECRET),
        ("guest", ""),
        ("guest", "x" * 2000),
        ("g" * 256, SECRET),
        ("has no permission to access", SECRET),
    ],
)
def test_a_wrong_name_or_secret_is_refused(door, name, secret):
    page = door.log_in(name, secret)
    assert page.status == 401 and "The name or the password is wrong." in page.text
    assert not len(door.accounts.sessions)
    assert door.visitor.request("GET", "/api/v1/account").status_code == 401


def test_everything_that_a_visitor_asks_is_signed_with_its_own_account(door):
    door.log_in()
    found = door.visitor.request("GET", "/api/v1/brokers/broker-a/settings")
    assert found.status_code == 200 and found.json()["missing"], found.text
    assert "guest" in json.dumps(found.json()["missing"])
    door.visitor.cookies.clear()
    door.log_in("inner", "inner-secret")
    assert door.visitor.api("/brokers/broker-a/settings")["data"] is not None


def test_a_page_that_is_refused_says_so_in_the_words_of_the_broker(door):
    door.log_in()
    page = door.visitor.submit(door.visitor.get("/new/topic"), "/new/topic", topic="Orders", read_queues="1")
    assert page.status == 403, page.text
    assert "The access control of the cluster forbids this" in page.text
    assert "User:guest has no permission to access Topic:Orders" in page.text
    assert "gantrymq acl grant guest" in page.text
    (missing,) = door.visitor.api("/groups/billing/queues")["missing"]
    assert (missing["what"], missing["reason"]) == ("broker-a", "refused")
    assert "User:guest has no permission to access Group:billing" in missing["sentence"]


def test_the_secret_is_nowhere_but_in_the_session(door, caplog):
    caplog.set_level(logging.DEBUG)
    pages = [door.log_in("guest", "wrong-secret"), door.log_in(), door.visitor.get("/account"), door.visitor.get("/")]
    pages.append(door.visitor.get("/audit"))
    seen = "".join(each.response.text + str(each.response.headers) for each in pages)
    seen += str(door.visitor.cookies) + str(door.visitor.audit.entries) + caplog.text
    seen += repr(door.accounts.sessions.find(door.visitor.cookies.get("gantrymq-8088"))) + repr(vars(door.users))
    assert "guest" in seen and SECRET not in seen and "wrong-secret" not in seen


def test_changes_are_in_the_audit_log_under_the_name_of_the_user(door):
    door.log_in("inner", "inner-secret")
    page = door.visitor.submit(door.visitor.get("/new/topic"), "/new/topic", topic="Made", read_queues="1")
    assert door.visitor.confirm(page).status == 200
    last = door.visitor.audit.entries[-1]
    assert (last.user, last.target, last.result) == ("inner", "Made", "done")


def test_users_share_no_views(door):
    door.log_in("inner", "inner-secret")
    assert door.visitor.get("/topics?part=live").status == 200
    door.visitor.cookies.clear()
    door.log_in()
    assert "has no permission" in door.visitor.get("/topics?part=live").response.text


def test_a_session_ends_when_the_cluster_no_longer_accepts_its_secret(door):
    door.log_in()
    door.change(guest=["another-secret"])
    try:
        door.clock.advance(PROVED_S)
        assert door.visitor.request("GET", "/api/v1/account").status_code == 401
        assert not len(door.accounts.sessions) and not len(door.users)
    finally:
        door.change(guest=[SECRET])


def test_the_proof_is_not_repeated_at_each_request(door):
    door.log_in()
    door.change(guest=["another-secret"])
    try:
        assert door.visitor.request("GET", "/api/v1/account").status_code == 200
    finally:
        door.change(guest=[SECRET])


def test_a_user_has_one_client_until_it_is_unused(door):
    for _ in range(2):
        door.visitor.cookies.clear()
        door.log_in()
    assert len(door.users) == 1 and len(door.accounts.sessions) == 2
    door.clock.advance(UNUSED_S - 1)
    assert door.visitor.request("GET", "/api/v1/account").status_code == 200
    door.clock.advance(UNUSED_S - 1)
    assert len(door.users) == 1
    _advance(door, 1)
    assert not len(door.users)
    assert door.visitor.request("GET", "/api/v1/account").status_code == 200
    assert len(door.users) == 1


def _advance(door, seconds):
    door.running.call(door.clock.advance, seconds)


def test_a_user_who_logs_out_leaves_no_client(door):
    door.log_in()
    form = [each for each in door.visitor.get("/account").forms if each.action.endswith("/logout")][-1]
    door.visitor.request("POST", form.action, data=form.fields)
    assert not len(door.accounts.sessions) and not len(door.users)


def test_the_client_that_is_unused_for_longest_makes_room(door, monkeypatch):
    monkeypatch.setattr(user_consoles, "MOST", 1)
    door.log_in()
    guest = door.visitor.cookies
    door.visitor.cookies = type(guest)()
    door.log_in("inner", "inner-secret")
    assert [each.access_key for each in door.users._open] == ["inner"]
    in_use = door.running.run(door.users.use(Credentials("inner", "inner-secret")))
    door.visitor.cookies = guest
    refused = door.visitor.request("GET", "/account")
    assert refused.status_code == 503 and refused.headers["retry-after"]
    door.running.call(door.users.release, in_use)
    assert door.visitor.request("GET", "/account").status_code == 200


def test_a_user_who_logs_out_during_a_download_keeps_the_client_until_its_end(door):
    door.log_in()
    in_use = door.running.run(door.users.use(Credentials("guest", SECRET)))
    door.running.call(door.accounts.sessions.end_all, "guest")
    assert len(door.users) == 1
    door.running.call(door.users.release, in_use)
    assert not len(door.users)


def test_nobody_logs_in_at_a_cluster_without_access_control(tmp_path):
    with RunningBroker(tmp_path) as running, ClusterDoor(running) as door:
        page = door.log_in()
        assert page.status == 503 and "does not control access" in page.text
        assert not len(door.accounts.sessions)


def test_nobody_logs_in_while_no_broker_answers(tmp_path):
    with RunningBroker(tmp_path, GUARDED, [AccountsPlugin()]) as running, ClusterDoor(running) as door:
        door.log_in()
        running.run(running.cluster._broker.stop())
        door.visitor.cookies.clear()
        page = door.log_in()
        assert page.status == 503 and "no broker answers" in page.text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"no_login": True}, "--login cluster and --no-login exclude each other"),
        ({"user_header": "X-User", "trusted_proxies": ("10.0.0.1",)}, "--login cluster and --user-header exclude"),
        ({"host": "0.0.0.0"}, "unencrypted on 0.0.0.0: add --tls-cert"),
    ],
)
def test_options_that_contradict_the_log_in_by_the_cluster_are_refused(tmp_path, options, sentence):
    given = {"host": "127.0.0.1", "state": tmp_path, "login": "cluster", **options}
    with pytest.raises(ConfigError, match=sentence):
        entrance(real_world(), "127.0.0.1:9876", EntranceOptions(**given), print)


def test_the_log_in_by_the_cluster_needs_no_user_of_the_console(tmp_path):
    options = EntranceOptions("127.0.0.1", tmp_path, trusted_proxies=("127.0.0.1",), login="cluster")
    way_in = entrance(real_world(), "127.0.0.1:9876", options, print)
    assert isinstance(way_in.identities, ClusterAccounts) and not way_in.new_code()


@pytest.mark.parametrize(
    ("text", "is_accepted"),
    [
        ("User:a has no permission to access Cluster:C from 10.0.0.1, no matched policies.", True),
        ("Need admin permission for request code=26, but accessKey=a is not", True),
        ("User:a has no permission to access Cluster:C: check signature failed", False),
        ("User:a is not found.", False),
        ("User:a is disabled.", False),
        ("Check signature failed for accessKey=a", False),
        ("something else", False),
    ],
)
def test_refusals_of_known_users_are_told_from_others(text, is_accepted):
    assert _accepts(ClientError(text), "a") is is_accepted
