"""Hostile visitors and hostile data: roles, forms, names and bodies with markup, random requests, a proxy's path."""

from __future__ import annotations

import random
import re
from importlib.resources import files
from importlib.util import find_spec
from urllib.parse import quote, unquote

import pytest
from console_door import Door, make_users
from console_members import commit, join
from console_visitor import BASE, Page, Visitor

from gantrymq.client import Message, TransactionState
from gantrymq_console.access.exposure import Exposure, networks_of
from gantrymq_console.access.users import Role, User
from gantrymq_console.running import SECTIONS
from gantrymq_testing.running_broker import RunningBroker

pytest.importorskip("gantrymq_storage_memory")

MARKUP = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}${7*7}"
BIDI = "\u202eevil\u2066\x1b[31m\u200b"
SECRET = "BODY-MARKER-4711"
TOPIC, GROUP = "Hostile_Topic%1", "Hostile-Group%1"
PAGES = [page for section in SECTIONS for page in section.pages]
DOWNLOADS = [each for section in SECTIONS for each in section.downloads]
ACTIONS = [action for section in SECTIONS for action in section.actions]
HOSTILE_QUERY = "&".join(f"{name}={quote(MARKUP)}" for name in ("q", "filter", "id", "key", "text", "topic"))
QUERIES = ("", "?part=live", f"?topic={quote(TOPIC)}&text={SECRET[:6]}", f"?{HOSTILE_QUERY}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A broker with hostile messages, clients and properties; returns it with the names that fill addresses."""
    with RunningBroker(tmp_path_factory.mktemp("broker")) as running:
        running.create_topic(TOPIC, 2)
        bodies = [SECRET, MARKUP + SECRET, BIDI + SECRET, '{"a":' * 300 + f'"{SECRET}"', "\x00" + SECRET]
        more = {"tags": "<b>", "keys": "k<i>", "properties": {"p<u>": MARKUP, "q": BIDI}}
        sent = [running.send(TOPIC, each.encode(), **more) for each in bodies]
        if find_spec("gantrymq_schedule") is not None:
            running.send(TOPIC, bodies[1].encode(), delay_level=10, **more)
            running.send(TOPIC, bodies[1].encode(), delay_ms=3_600_000, **more)
        running.create_topic(f"%DLQ%{GROUP}", 1)
        running.put(f"%DLQ%{GROUP}", bodies[1].encode(), tags="<b>", properties={"RETRY_TOPIC": MARKUP, "p": BIDI})
        visitor = Visitor(running)
        visitor.identities = Chosen()
        with visitor:
            commit(visitor, GROUP, TOPIC)
            join(visitor, GROUP, f"10.0.0.1@{MARKUP}{BIDI}", TOPIC, "a || <b>")
            half = running.run(send_half(visitor, bodies[1]))
            jobs = [start_job(visitor, kind) for kind in ("searches", "tail")]
            (broker,) = {each.name for each in running.run(visitor.cluster.brokers())}
            names = {
                "topic": [TOPIC, MARKUP, "%2e%2e"],
                "group": [GROUP, MARKUP],
                "id": [each.message_id for each in sent[:3]] + [half, MARKUP],
                "job": [*jobs, MARKUP],
                "broker": [broker, MARKUP],
                "key": ["brokerName", MARKUP],
            }
            yield visitor, names


async def send_half(visitor, body):
    """Send a half message whose transaction stays undecided; return its unique id."""
    producer = visitor.client.transaction_producer("payers", lambda message: TransactionState.UNKNOWN)
    async with producer.transaction(Message(TOPIC, body.encode(), keys="k<i>")) as transaction:
        transaction.state = TransactionState.UNKNOWN
    return transaction.id


def start_job(visitor, kind):
    """Start a search for the body, or a tail; return its id."""
    token = visitor.api("/account")["data"]["csrf_token"]
    address = f"/api/v1/topics/{quote(TOPIC, safe='')}/{kind}"
    fields = {"text": SECRET[:6]} if kind == "searches" else {}
    return visitor.request("POST", address, json={**fields, "csrf": token}).json()["data"]["job"]


def requests_of(part, names):
    """Return addresses of a page: the first one with all queries, the others without."""
    first, *others = addresses(part.path, names)
    return [first + query for query in QUERIES] + others


def addresses(path, names):
    """Return addresses of a page: its path with names, one field after the other."""
    fields = re.findall(r"{(\w+)", path)
    lists = [names.get(each, ["1", MARKUP]) for each in fields]
    found = []
    for place in range(max(map(len, lists), default=1)):
        values = iter([each[place % len(each)] for each in lists])
        found.append(re.sub(r"{[^}]*}", lambda _: quote(next(values), safe=""), path))  # noqa: B023
    return found


class Chosen:
    """Identities of a console without log-in, whose one user has the role that the test chose."""

    role = Role.ADMIN

    async def user_of(self, request):
        return User("tester", self.role)

    def login_path(self):
        return None

    def sessions_of(self, name):
        return 1

    def log_out(self, request, *, everywhere):
        pass


def as_role(visitor, role):
    visitor.identities.role = role


def test_nothing_is_served_below_its_role(site):
    visitor, names = site
    parts = [(each, "GET") for each in (*PAGES, *DOWNLOADS)] + [(each, "POST") for each in ACTIONS]
    for role in Role:
        as_role(visitor, role)
        for part, method in parts:
            address = addresses(part.path, names)[0]
            for at in (address, "/api/v1" + address):
                sent = {"json": {}} if at.startswith("/api") else {"data": {"once": "1"}}
                found = visitor.request(method, at, **(sent if method == "POST" else {}))
                if role < part.role:
                    assert found.status_code == 403, (role, method, at)
                    needed = part.role.word
                    assert needed in found.text, "who may is said"
                elif method == "POST":
                    assert found.status_code == 403 and "another browser session" in found.text, (at, found.text)
                else:
                    assert found.status_code != 403, (role, at)


def test_a_viewer_gets_no_byte_of_a_body(site):
    visitor, names = site
    seen = {}
    for role in (Role.VIEWER, Role.READER):
        as_role(visitor, role)
        seen[role] = [
            address
            for part in (*PAGES, *DOWNLOADS)
            for address in requests_of(part, names)
            for prefix in (("", "/api/v1") if role is Role.VIEWER else ("",))
            if SECRET.encode() in visitor.request("GET", prefix + address).content
        ]
    assert seen[Role.VIEWER] == []
    assert seen[Role.READER], "readers do see bodies, so the test looks at the right places"


def test_hostile_names_and_values_are_text_on_every_page(site):
    visitor, names = site
    as_role(visitor, Role.ADMIN)
    for part in PAGES:
        for address in requests_of(part, names):
            found = visitor.request("GET", address)
            if "text/html" in found.headers.get("content-type", ""):
                Page(found)  # closed elements, no inline script, no handlers
                for raw in ("<script>alert", "<img", "\u202e", "\u2066", "\x1b"):
                    assert raw not in found.text, (raw, address)


def test_downloads_are_never_shown_by_the_browser(site):
    visitor, names = site
    as_role(visitor, Role.ADMIN)
    for part in DOWNLOADS:
        for address in addresses(part.path, names):
            found = visitor.request("GET", f"{address}?topic={quote(TOPIC)}")
            if found.status_code == 200 and "content-disposition" in found.headers:
                assert found.headers["content-disposition"].startswith("attachment"), address
                assert "html" not in found.headers["content-type"]
            assert found.headers["x-content-type-options"] == "nosniff"


def test_get_changes_nothing(site):
    visitor, names = site
    as_role(visitor, Role.ADMIN)

    def state():
        visitor.cluster.forget()
        admin = visitor.client.admin
        address = visitor.running.broker_address
        return visitor.running.run(_state(admin, address))

    async def _state(admin, address):
        stats = await admin.topic_stats(address, TOPIC)
        return await admin.topics(), await admin.groups(address), {str(key): str(each) for key, each in stats.items()}

    before = state()
    visitor.audit.entries.clear()
    for part in (*PAGES, *DOWNLOADS, *ACTIONS):
        for address in addresses(part.path, names):
            visitor.request("GET", f"{address}?confirm=yes&once=1&typed={quote(TOPIC)}&topic={quote(TOPIC)}")
            visitor.request("HEAD", address)
    assert state() == before
    assert {each.result for each in visitor.audit.entries} <= {"read"}


def test_a_form_that_is_sent_twice_changes_once(site):
    visitor, _ = site
    as_role(visitor, Role.ADMIN)
    page = visitor.get("/account")
    fields = {"csrf": page.form("/preferences").fields["csrf"], "once": "0123456789abcdef"}
    assert visitor.request("POST", "/logout", data=fields).status_code != 409
    assert visitor.request("POST", "/logout", data=fields).status_code == 409
    assert visitor.request("POST", "/logout", data={**fields, "once": ""}).status_code == 409


def test_nothing_switches_escaping_off():
    folder = files("gantrymq_console")
    for template in folder.joinpath("templates").iterdir():
        text = template.read_text("utf-8")
        assert not re.search(r"\|\s*safe|autoescape|<script(?! src=)|javascript:|<[^>]* on\w+=", text), template.name
        assert not re.search(r"<[^>{]*\s[\w-]+={{", text), f"{template.name}: an attribute without quotes"
    for script in ("console.js", "charts.js"):
        text = folder.joinpath("static", script).read_text("utf-8")
        assert not re.search(
            r"\beval\b|new Function|outerHTML|insertAdjacentHTML|document\.write|\.innerHTML\s*=", text
        ), script


def test_a_form_that_is_too_large_is_413(site):
    visitor, _ = site
    as_role(visitor, Role.ADMIN)
    for address, most in (("/logout", 1024 * 1024), ("/preferences", 8192), ("/api/v1/logout", 1024 * 1024)):
        assert visitor.request("POST", address, content=b"a=" + b"x" * (most - 2)).status_code in (400, 403)
        assert visitor.request("POST", address, content=b"a=" + b"x" * (most - 1)).status_code == 413


# --- random requests ---

WORDS = re.split(" ", "topics groups messages api v1 static login search brokers new .. . %2e%2e")
PIECES = [*re.split(" ", "%00 %0d%0a %ff % // {x} ' <b> %25 %C3%A4 \\ ; & = # +"), "a" * 3000]
FIELDS = re.split(" ", "q start rows filter topic key from to sort order part done id queue text")
VALUES = [
    *re.split(" ", "-1 0 99999999999999999999 NaN 1e400 null [] %s {0} { live"),
    "\u0660",
    "\ud800",
    "\x00",
    MARKUP,
]
METHODS = ("GET", "GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO")
HEADERS = (
    (b"accept-language", b"zh;q=x,,;q=,en;q=1e999,\xff"),
    (b"cookie", b"lang=xx; theme=\xff; zone=;;=; gantrymq-8088=" + b"g" * 64),
    (b"cookie", b"gantrymq-8088=" + b"a" * 64),
    (b"x-forwarded-for", b",,\xff,1.2.3.4"),
    (b"authorization", b"Bearer gmqc_\xff"),
    (b"if-none-match", b"\xff"),
    (b"content-type", b"multipart/form-data; boundary=\xff"),
    (b"origin", b"null"),
    (b"origin", b"http://[::1"),
    (b"sec-fetch-site", b"same-site"),
    (b"x-csrf-token", b"\xff"),
    (b"range", b"bytes=0-1,5-"),
)
BODIES = (
    b"",
    b"{",
    b"[]",
    b'{"a":1}',
    b'{"csrf":"\\ud800"}',
    b"a=%ff&&=&" * 50,
    b"\xff\xfe",
    b"a=1&" * 3000,
    b"[" * 100_000,
)


def random_request(dice, names, token, cookie):
    """Return method, raw path, query, headers and body."""
    (kind,) = dice.choices((PAGES, ACTIONS, DOWNLOADS), (6, 3, 1))  # however many actions there are
    path = dice.choice(kind).path
    if dice.random() < 0.8:
        raw = dice.choice(addresses(path, names))
        raw = ("/api/v1" if dice.random() < 0.4 else "") + raw
    else:
        raw = "/" + "/".join(dice.choice(WORDS + PIECES) for _ in range(dice.randrange(5)))
    if dice.random() < 0.15:
        place = dice.randrange(1, len(raw) + 1)
        raw = raw[:place] + dice.choice(PIECES) + raw[place:]
    raw = quote(raw, safe="%/:;&=+$,\\{}'<>~.")
    query = "&".join(
        f"{dice.choice(FIELDS)}={quote(dice.choice(VALUES), errors='surrogatepass')}" for _ in range(dice.randrange(4))
    )
    headers = [(b"host", dice.choice((b"127.0.0.1:8088",) * 60 + (b"[::1", b"", b"a:b:c", b"\xff")))]
    if dice.random() < 0.5:
        headers.append((b"cookie", cookie))
    headers += dice.sample(HEADERS, dice.randrange(3))
    body = dice.choice(BODIES)
    if dice.random() < 0.5:
        body = (f"csrf={token}&once={dice.random()}&" if "/api" not in raw else "").encode() + body
    return dice.choice(METHODS), raw.encode(), query.encode(), headers, body


async def ask(app, method, raw_path, query, headers, body):
    """Send one request to an ASGI application as the HTTP server does; return status and body."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8088),
    }
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    got = []

    async def receive():
        return sent.pop() if sent else {"type": "http.disconnect"}

    async def send(message):
        got.append(message)

    await app(scope, receive, send)
    return got[0]["status"], b"".join(each.get("body", b"") for each in got[1:])


def test_a_thousand_random_requests_bring_no_traceback(site, caplog):
    visitor, names = site
    as_role(visitor, Role.ADMIN)
    page = visitor.get("/account")
    token = page.form("/preferences").fields["csrf"]
    cookie = f"gantrymq-8088={visitor.cookies['gantrymq-8088']}".encode()
    dice = random.Random(4711)
    requests = [random_request(dice, names, token, cookie) for _ in range(1000)]

    async def work():
        found = []
        for request in requests:
            found.append((await ask(visitor.app, *request), request))
        return found

    statuses = {}
    for (status, body), request in visitor.running.run(work()):
        assert status != 500, (request, body[:300])
        assert b"Traceback" not in body
        statuses[status] = statuses.get(status, 0) + 1
    assert not [each for each in caplog.records if each.levelname == "ERROR"], caplog.text
    assert {200, 400, 403, 404, 405} <= statuses.keys() and statuses[200] > 100, statuses


# --- below a path of a proxy ---


class Proxy:
    """A reverse proxy that serves https://console.example/mq/ and gives the rest of the path to the console."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        assert scope["raw_path"].startswith(b"/mq/"), scope["raw_path"]
        headers = [pair for pair in scope["headers"] if pair[0] != b"host"]
        headers += [(b"host", b"127.0.0.1:8088"), (b"x-forwarded-for", b"192.0.2.7")]
        rest = {"raw_path": scope["raw_path"][3:], "path": scope["path"][3:], "headers": headers, "scheme": "http"}
        await self.app({**scope, **rest}, receive, send)


def test_the_console_works_below_a_path_of_a_proxy_that_changes_host(site, tmp_path):
    make_users(tmp_path)
    exposure = Exposure(frozenset({"console.example"}), secure=True, proxies=networks_of(["127.0.0.1"]))
    with Door(site[0].running, tmp_path, exposure) as door:
        visitor, public = door.visitor, "https://console.example/mq"
        visitor.app = Proxy(visitor.app)
        visitor._headers["origin"] = "https://console.example"
        page = visitor.get(f"{public}/topics/{quote(quote(TOPIC, safe=''), safe='%')}")
        assert page.url.startswith(f"{public}/login?to=")
        page = visitor.submit(page, "/login", name="ann", password="correct horse")
        assert page.url == f"{public}/topics/{quote(TOPIC, safe='')}" and page.status == 200, page.url
        page = visitor.submit(page, "/preferences", lang="zh")
        assert page.url.startswith(f"{public}/topics/") and 'lang="zh"' in page.response.text
        seen = {page.url}
        for _, to in page.links:
            to = to.partition("#")[0]
            assert to.startswith(public + "/"), to
            if to not in seen and "download" not in to:
                seen.add(to)
                door.clock.advance(1)
                assert visitor.request("GET", to).status_code in (200, 404), to
        assert len(seen) > 5
        found = visitor.request("POST", f"{public}/preferences", headers={"origin": "https://attacker.example"})
        assert found.status_code == 403 and "--host-name" in found.text
        assert visitor.audit.entries[0].address == "192.0.2.7"


def test_a_console_for_loopback_trusts_no_forwarded_header(site):
    visitor, _ = site
    headers = {"x-forwarded-host": "attacker.example", "x-forwarded-for": "1.2.3.4", "x-forwarded-user": "root"}
    assert visitor.request("GET", "/account", headers={**headers, "host": "attacker.example"}).status_code == 403
    assert visitor.get("/account", headers=headers).url == f"{BASE}/account"
