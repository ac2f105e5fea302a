"""Logging in: passwords, the one-time link, API tokens, users named by a proxy; sessions and their limits."""

from __future__ import annotations

import asyncio
import json

import attrs
import pytest
from console_door import COST, PASSWORD, TOKEN, Door, make_users, save
from console_visitor import BASE
from manual_clock import ManualClock

from gantrymq.world.real import RealFiles
from gantrymq_console.access import passwords
from gantrymq_console.access.accounts import ProxyUsers
from gantrymq_console.access.exposure import Exposure, networks_of
from gantrymq_console.access.passwords import Checker, digest_of
from gantrymq_console.access.sessions import IDLE_S, LONGEST_S, MOST, MOST_OF_ONE, Attempts, Rates, Sessions, network_of
from gantrymq_console.access.users import TOKEN_PREFIX, Role, StoredUser, read_users
from gantrymq_testing.running_broker import RunningBroker

pytest.importorskip("gantrymq_storage_memory")


@pytest.fixture(scope="module")
def gantrymq_broker(tmp_path_factory):
    with RunningBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    make_users(tmp_path)
    return tmp_path


@pytest.fixture
def door(gantrymq_broker, folder):
    with Door(gantrymq_broker, folder) as found:
        yield found


def test_a_visitor_logs_in_and_reaches_the_page_that_was_asked_for(door):
    page = door.visitor.get("/topics?filter=a")
    assert page.url == f"{BASE}/login?to=%2Ftopics%3Ffilter%3Da"
    page = door.visitor.submit(page, "/login", name="ann", password=PASSWORD)
    assert page.url == f"{BASE}/topics?filter=a" and page.status == 200
    assert "You are ann (administrator)." in page.text
    assert door.visitor.api("/account")["data"]["role"] == "admin"


def test_nothing_is_served_without_log_in(door):
    assert door.visitor.request("GET", "/api/v1/topics").status_code == 401
    assert door.visitor.request("POST", "/logout", data={"once": "1"}).status_code == 401
    live = door.visitor.request("GET", "/topics?part=live")
    assert live.status_code == 401 and live.headers["hx-refresh"] == "true"
    assert door.visitor.get("/nothing").url.startswith(f"{BASE}/login")


def test_probes_need_no_log_in(door):
    for method in ("GET", "HEAD"):
        found = door.visitor.request(method, "/healthz", headers={"Host": "10.0.0.7:8088"})
        assert found.status_code == 200, method
    assert door.visitor.request("GET", "/healthz").json() == {"healthy": True}


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("nobody", PASSWORD), ("", ""), ("<b>", "x" * 3000)])
def test_a_wrong_name_or_password_is_one_and_the_same_sentence(door, name, password):
    page = door.log_in(name, password)
    assert page.status == 401 and "The name or the password is wrong." in page.text
    assert "<b>" not in page.response.text
    assert door.visitor.request("GET", "/api/v1/topics").status_code == 401


def test_the_page_leads_nowhere_else(door):
    for to in (
        "https://attacker.example/x",
        "//attacker.example/x",
        "/../../x",
        "\\\\attacker.example",
        "/?self=1",
        "[",
    ):
        door.visitor.cookies.clear()
        page = door.log_in(to=to)
        assert page.url.startswith(BASE + "/"), page.url
        assert ".." not in page.url


def test_an_id_from_before_the_log_in_is_no_session(door):
    page = door.visitor.get("/login")
    before = door.cookie
    door.visitor.submit(page, "/login", name="ann", password=PASSWORD)
    after = door.cookie
    assert before != after
    door.visitor.cookies.clear()
    door.visitor.cookies.set("gantrymq-8088", before)
    assert door.visitor.request("GET", "/api/v1/topics").status_code == 401


def test_a_token_of_one_session_does_not_count_in_another(door):
    first = door.log_in()
    token = first.form("/preferences").fields["csrf"]
    door.visitor.cookies.clear()
    second = door.log_in("vic")
    fields = second.form("/preferences").fields
    assert fields["csrf"] != token
    assert door.visitor.request("POST", "/preferences", data={**fields, "csrf": token}).status_code == 403
    assert door.visitor.request("POST", "/preferences", data=fields).status_code == 200


def test_a_form_to_log_in_without_its_token_is_refused(door):
    page = door.visitor.get("/login")
    fields = {**page.form("/login").fields, "name": "ann", "password": PASSWORD, "csrf": "0" * 64}
    assert "too old" in door.visitor.post("/login", fields).text
    door.visitor.cookies.clear()
    page = door.visitor.post("/login", fields)
    assert page.status == 403 and "did not send the cookie" in page.text
    assert not len(door.accounts.sessions)


def test_logging_out_ends_this_session_or_all_of_the_user(door):
    door.log_in()
    first = door.cookie
    door.visitor.cookies.clear()
    page = door.log_in()
    page = door.visitor.get("/account")
    assert page.text.count("Sessions 2") == 1
    _press(door, page)
    assert len(door.accounts.sessions) == 1 and door.accounts.sessions.find(first)
    door.log_in()
    _press(door, door.visitor.get("/account"), everywhere="yes")
    assert not len(door.accounts.sessions)
    assert door.visitor.get("/topics").url.startswith(f"{BASE}/login")


def _press(door, page, **fields):
    form = [each for each in page.forms if each.action.endswith("/logout")][-1]
    return door.visitor.request("POST", form.action, data={**form.fields, **fields})


def test_a_session_ends_when_it_is_idle_or_old(door):
    door.log_in()
    for _ in range(12):
        door.clock.advance(IDLE_S - 1)
        assert door.visitor.request("GET", "/api/v1/account").status_code == 200
    door.clock.advance(LONGEST_S - 12 * (IDLE_S - 1))
    assert door.visitor.request("GET", "/api/v1/account").status_code == 401
    door.log_in()
    door.clock.advance(IDLE_S)
    assert door.visitor.request("GET", "/api/v1/account").status_code == 401


def test_a_changed_role_counts_at_once_and_a_new_password_ends_sessions(door, folder):
    door.log_in()
    table = read_users(RealFiles(), folder)
    known = table.users["ann"]
    save(folder, attrs.evolve(table, users={"ann": attrs.evolve(known, role=Role.READER)}))
    door.clock.advance(2)
    assert door.visitor.api("/account")["data"]["role"] == "reader"
    save(folder, attrs.evolve(table, users={"ann": StoredUser(Role.ADMIN, digest_of("another one", COST))}))
    door.clock.advance(2)
    assert door.visitor.request("GET", "/api/v1/account").status_code == 401
    assert door.log_in(password="another one").status == 200
    (folder / "users.json").write_text("{")
    door.clock.advance(2)
    assert door.visitor.request("GET", "/api/v1/account").status_code == 401
    assert door.log_in(password="another one").status == 401


def test_failures_are_limited_by_name_and_by_address(door):
    for _ in range(5):
        assert door.log_in("nobody").status == 401
    page = door.log_in("ann")
    assert page.status == 429 and page.response.headers["retry-after"] == "60"
    assert "Try again in 60 seconds." in page.text
    assert len(door.visitor.audit.entries) == 5, "what is refused cannot push other entries out of the log"
    door.clock.advance(61)
    assert door.log_in("ann").status == 200


def test_a_success_does_not_count_as_a_failure(door):
    for _ in range(8):
        door.visitor.cookies.clear()
        assert door.log_in().status == 200


def test_log_ins_are_in_the_audit_log(door):
    door.log_in(password="wrong")
    door.log_in()
    assert [(each.user, each.action, each.result) for each in door.visitor.audit.entries] == [
        ("ann", "login.title", "failed"),
        ("ann", "login.title", "done"),
    ]
    assert PASSWORD not in str(door.visitor.audit.entries)


def test_a_token_needs_no_form_token_and_ends(door, folder):
    headers = {"authorization": f"Bearer {TOKEN}"}
    data = door.visitor.api("/account", headers=headers)["data"]
    assert (data["user"], data["role"]) == ("token:ci", "reader")
    found = door.visitor.request("POST", "/api/v1/logout", json={}, headers=headers)
    assert found.status_code == 200
    for wrong in ("Bearer x", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer " + TOKEN_PREFIX):
        assert door.visitor.request("GET", "/api/v1/account", headers={"authorization": wrong}).status_code == 401
    table = read_users(RealFiles(), folder)
    ended = attrs.evolve(table.tokens["ci"], until_ms=door.clock.now_ms() + 5000)
    save(folder, attrs.evolve(table, tokens={"ci": ended}))
    door.clock.advance(2)
    assert door.visitor.request("GET", "/api/v1/account", headers=headers).status_code == 200
    door.clock.advance(3)
    assert door.visitor.request("GET", "/api/v1/account", headers=headers).status_code == 401


def test_the_one_time_link_works_once_and_a_new_one_is_offered(gantrymq_broker, tmp_path):
    offered = []
    with Door(gantrymq_broker, tmp_path, announce=offered.append) as door:
        code = door.accounts.new_code()
        page = door.visitor.get(f"/login?code={code}&to=/account")
        assert len(door.accounts.sessions) == 0, "GET changes nothing"
        page = door.visitor.submit(page, "/login")
        assert page.url == f"{BASE}/account" and "local" in page.text
        door.visitor.cookies.clear()
        again = door.visitor.submit(door.visitor.get(f"/login?code={code}"), "/login")
        assert again.status == 401 and "This link was used before" in again.text
        assert offered == []
        door.clock.advance(60)
        for _ in range(2):
            assert "printed where this console was started" in door.visitor.get("/login").text
        assert len(offered) == 1
        assert door.visitor.submit(door.visitor.get(f"/login?code={offered[0]}"), "/login").status != 401
        assert len(door.accounts.sessions) == 2


def test_the_page_says_what_ends_the_links(gantrymq_broker, tmp_path):
    with Door(gantrymq_broker, tmp_path, announce=lambda code: None) as door:
        for page in ("/login", f"/login?code={door.accounts.new_code()}"):
            assert "no link is printed any more" in door.visitor.get(page).text


def test_a_trusted_proxy_names_the_user(gantrymq_broker, folder):
    exposure = Exposure(frozenset({"console.example"}), secure=True, proxies=networks_of(["127.0.0.0/8"]))
    with Door(gantrymq_broker, folder, exposure, proxy=ProxyUsers("x-forwarded-user", Role.VIEWER)) as door:

        def ask(*users):
            headers = {"x-forwarded-user": ",".join(users)} if users else {}
            return door.visitor.request("GET", "/api/v1/account", headers=headers)

        assert ask("ann").json()["data"]["role"] == "admin"
        assert ask("somebody").json()["data"]["role"] == "viewer"
        for wrong in ((), ("",), ("ann", "vic"), ("<b>",)):
            assert ask(*wrong).status_code == 401
    strange = attrs.evolve(exposure, proxies=networks_of(["10.0.0.1"]))
    with Door(gantrymq_broker, folder, strange, proxy=ProxyUsers("x-forwarded-user", Role.VIEWER)) as door:
        found = door.visitor.request("GET", "/topics", headers={"x-forwarded-user": "ann"})
        assert found.status_code == 401 and "named no user" in found.text


def test_the_address_is_the_last_one_before_the_trusted_proxies(gantrymq_broker, folder):
    exposure = Exposure(frozenset({"console.example"}), secure=True, proxies=networks_of(["127.0.0.1", "10.0.0.0/8"]))
    with Door(gantrymq_broker, folder, exposure) as door:
        hops = {"x-forwarded-for": "6.6.6.6, 192.0.2.7, 10.1.2.3"}
        page = door.visitor.get("/login", headers=hops)
        form = page.form("/login")
        cookies = page.response.headers["set-cookie"]
        assert cookies.startswith("__Host-gantrymq=") and "Secure" in cookies and "HttpOnly" in cookies
        assert "samesite=strict" in cookies.lower() and "Path=/" in cookies
        headers = {**hops, "cookie": cookies.partition(";")[0], "origin": "https://console.example"}
        fields = {**form.fields, "name": "ann", "password": "wrong"}
        assert door.visitor.request("POST", "/login", data=fields, headers=headers).status_code == 401
        assert door.visitor.audit.entries[-1].address == "192.0.2.7"


# --- the parts alone ---


def test_ten_thousand_log_ins_take_bounded_memory():
    clock = ManualClock()
    sessions = Sessions(clock)
    first = sessions.begin("ann", "")
    for each in range(10_000):
        sessions.begin(f"user{each % 500}", "")
    assert len(sessions) <= MOST and sessions.find(first) is None
    for _ in range(300):
        newest = sessions.begin("one", "")
    assert sessions.count("one") == MOST_OF_ONE and sessions.find(newest)
    clock.advance(IDLE_S)
    sessions.begin("two", "")
    assert len(sessions) == 1 and sessions._of.keys() == {"two"}


def test_tables_of_limits_are_bounded():
    attempts, rates = Attempts(ManualClock()), Rates(ManualClock())
    for each in range(20_000):
        assert attempts.start(f"name {each}") == 0
        assert rates.allow(str(each))
    assert len(attempts._times) <= 10_000 and len(rates._buckets) <= 10_000


def test_attempts_at_the_same_time_do_not_pass_the_limit_together():
    clock = ManualClock()
    attempts = Attempts(clock)
    assert [attempts.start("a") > 0 for _ in range(7)] == [False] * 5 + [True] * 2
    attempts.succeeded("a")
    assert attempts.start("a") == 0
    clock.advance(60)
    assert attempts.start("a") == 0


def test_a_session_may_send_twenty_requests_a_second():
    clock = ManualClock()
    rates = Rates(clock)
    assert sum(rates.allow("s") for _ in range(100)) == 40
    assert rates.allow("another")
    clock.advance(1)
    assert sum(rates.allow("s") for _ in range(100)) == 20


def test_too_many_requests_of_a_session_are_429(door):
    door.log_in()
    found = [door.visitor.request("GET", "/api/v1/account").status_code for _ in range(60)]
    assert found.count(429) > 10 and found[0] == 200


def test_too_many_requests_without_log_in_are_429(door):
    found = [door.visitor.request("GET", "/api/v1/topics").status_code for _ in range(60)]
    assert found.count(429) == 20 and found[0] == 401
    assert door.visitor.request("GET", "/login").status_code == 429
    door.clock.advance(3)
    assert door.log_in().status == 200


def test_addresses_of_one_ipv6_network_are_one_visitor():
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:1::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1")
    assert network_of("fe80::1%eth0") == "fe80::/64" and network_of("x") == "x"


def test_the_file_of_users_holds_no_password_and_no_token(folder):
    text = (folder / "users.json").read_text()
    assert PASSWORD not in text and TOKEN not in text
    assert json.loads(text)["users"]["ann"]["password"].startswith("scrypt:")
    assert PASSWORD not in repr(read_users(RealFiles(), folder))


def test_a_wrong_name_costs_as_much_as_a_wrong_password(door, monkeypatch):
    done = []

    def scrypt(password, salt, *parameters):
        done.append(parameters)
        return b""

    monkeypatch.setattr(passwords, "_scrypt", scrypt)
    for name in ("ann", "nobody", "<b>", ""):
        door.log_in(name, "wrong")
    assert len(done) == 4 and len(set(done)) == 1


def test_too_many_checks_at_the_same_time_are_refused():
    async def check():
        class Stuck:
            async def run(self, work, *args):
                await asyncio.Event().wait()

        checker = Checker(Stuck(), COST)
        waiting = [asyncio.ensure_future(checker.matches("", "")) for _ in range(passwords.MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(passwords.TooBusy):
            await checker.matches("", "")
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert checker._waiting == 0

    asyncio.run(check())


def test_a_script_with_a_session_sends_the_token_of_the_account_page(door):
    door.log_in()
    token = door.visitor.api("/account")["data"]["csrf_token"]
    assert door.visitor.request("POST", "/api/v1/logout", json={}).status_code == 403
    found = door.visitor.request("POST", "/api/v1/logout", json={}, headers={"x-csrf-token": token})
    assert found.json()["done"] is True and not len(door.accounts.sessions)


def test_passwords_are_checked_with_the_parameters_of_their_digest():
    async def check():
        class Inline:
            async def run(self, work, *args):
                return work(*args)

        checker = Checker(Inline(), COST)
        strong, weak = digest_of(PASSWORD, 32), digest_of(PASSWORD, COST)
        assert strong != digest_of(PASSWORD, 32), "salted"
        assert await checker.matches(PASSWORD, strong) and await checker.matches(PASSWORD, weak)
        assert not await checker.matches("", "") and not await checker.matches(PASSWORD, "")

    asyncio.run(check())
