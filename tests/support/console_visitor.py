"""A browser without scripts at a console: addresses, forms, links; the ASGI application is called without a port."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import httpx

from gantrymq.client import Client
from gantrymq_console.access.audit import MemoryAudit
from gantrymq_console.access.exposure import Exposure
from gantrymq_console.access.users import Everyone, Role, User
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.history.reading import HistorySource, NoHistory
from gantrymq_console.running import SECTIONS
from gantrymq_console.web.app import App
from gantrymq_console.web.console import Console

BASE = "http://127.0.0.1:8088"
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Form:
    """A form of a page: where it goes, and the values that a browser would send."""

    def __init__(self, action: str, method: str) -> None:
        self.action = action
        self.method = method
        self.fields: dict[str, str] = {}
        self.buttons: list[str] = []


class Page(HTMLParser):
    """A parsed response. Raises AssertionError for elements that are not closed, or ids that occur twice."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(convert_charrefs=True)
        self.response = response
        self.status = response.status_code
        self.url = str(response.url)
        self.forms: list[Form] = []
        self.links: list[tuple[str, str]] = []  # text and absolute address
        self.texts: list[str] = []
        self.ids: set[str] = set()
        self._open: list[str] = []
        self._form: Form | None = None
        self._select = ""
        self._link: list[str] | None = None
        self.feed(response.text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    @property
    def text(self) -> str:
        """All text, with single blanks."""
        return " ".join(" ".join(self.texts).split())

    def form(self, action: str) -> Form:
        """Return the form whose address ends with *action*."""
        forms = [each for each in self.forms if each.method != "dialog"]
        found = [each for each in forms if each.action.partition("?")[0].endswith(action)]
        assert len(found) == 1, (
            f"{len(found)} forms with the address {action} in {[each.action for each in self.forms]}"
        )
        return found[0]

    def link(self, text: str) -> str:
        """Return the address of the link with *text*."""
        found = {to for name, to in self.links if name == text}
        assert len(found) == 1, f"{len(found)} links {text!r} in {self.links}"
        return found.pop()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert "style" not in given and not any(name.startswith("on") for name in given), f"inline code in {tag}"
        if "id" in given:
            assert given["id"] not in self.ids, f"the id {given['id']} occurs twice"
            self.ids.add(given["id"])
        if tag not in VOID:
            self._open.append(tag)
        if tag == "form" and given.get("method") != "dialog":
            self._form = Form(urljoin(self.url, given.get("action", "")), given.get("method", "get"))
            self.forms.append(self._form)
        elif tag == "a" and "href" in given:
            self._link = []
            self.links.append(("", urljoin(self.url, given["href"])))
        elif self._form is not None:
            self._field(tag, given)

    def _field(self, tag: str, given: dict[str, str]) -> None:
        assert self._form is not None
        name = given.get("name", "")
        if tag == "select":
            self._select = name
        elif tag == "option" and (self._select not in self._form.fields or "selected" in given):
            self._form.fields[self._select] = given.get("value", "")
        elif tag == "input" and name:
            if given.get("type") not in ("checkbox", "radio"):
                self._form.fields[name] = given.get("value", "")
            elif "checked" in given:
                self._form.fields[name] = given.get("value", "on")
        elif tag == "textarea" and name:
            self._form.fields[name] = ""
        elif tag == "button" and name:
            self._form.buttons.append(given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> closes {self._open[-1:]}"
        self._open.pop()
        if tag == "form":
            self._form = None
        elif tag == "a" and self._link is not None:
            self.links[-1] = (" ".join("".join(self._link).split()), self.links[-1][1])
            self._link = None

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            assert not data.strip(), "inline code"
            return
        self.texts.append(data)
        if self._link is not None:
            self._link.append(data)


class Visitor:
    """A browser at a console for the cluster of *running*, a `RunningBroker`; use it as a context manager."""

    def __init__(
        self,
        running: Any,
        role: Role = Role.ADMIN,
        *,
        language: str = "en",
        exposure: Exposure | None = None,
        past: HistorySource | None = None,
    ) -> None:
        self.running = running
        self.audit = MemoryAudit()
        self.identities: Any = Everyone(User("tester", role))
        self._exposure = exposure or Exposure()
        self._past = past or NoHistory()
        self._headers = {"accept-language": language}
        self.cookies = httpx.Cookies()

    def __enter__(self) -> Visitor:
        async def start() -> None:
            world = self.running.cluster.world
            self.client = Client(self.running.namesrv, world=world)
            await self.client.start()
            self.cluster = Cluster(self.client, world)
            parts = (self.cluster, world, self.identities, self.audit, self._exposure, SECTIONS, self.running.namesrv)
            self.console = Console(*parts, past=self._past)
            self.app = App(self.console)

        self.running.run(start())
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            await self.console.jobs.close()
            await self.cluster.close()
            await self.client.close()

        self.running.run(stop())

    def restart(self, state: Any) -> None:
        """Use a new console with the folder *state* of its files, as after a restart."""
        world, namesrv = self.running.cluster.world, self.running.namesrv
        identities = (self.identities, self.audit, self._exposure)
        self.cluster.kept.clear()
        self.use(Console(self.cluster, world, *identities, SECTIONS, namesrv, state=state))

    def use(self, console: Console) -> None:
        """Visit another console from now on."""
        self.console, self.app = console, App(console)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request; *options* as for httpx."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            headers = {**self._headers, **options.pop("headers", {})}
            async with httpx.AsyncClient(
                transport=transport, base_url=BASE, cookies=self.cookies, follow_redirects=True
            ) as browser:
                found = await browser.request(method, path, headers=headers, **options)
                self.cookies = httpx.Cookies(browser.cookies)
                return found

        return asyncio.run_coroutine_threadsafe(send(), self.running._loop).result(60)

    def get(self, path: str, **options: Any) -> Page:
        """Return a page."""
        return Page(self.request("GET", path, **options))

    def api(self, path: str, **options: Any) -> Any:
        """Return the JSON twin of the page at *path*."""
        found = self.request("GET", f"/api/v1{path}", **options)
        assert found.headers["content-type"] == "application/json", found.text
        return found.json()

    def submit(self, page: Page, action: str, **fields: str) -> Page:
        """Send the form of *page* whose address ends with *action*, with *fields* filled in."""
        form = page.form(action)
        given = {**form.fields, **fields}
        if form.method == "get":
            return self.get(form.action.partition("?")[0], params=given)
        return Page(self.request("POST", form.action, data=given))

    def post(self, action: str, fields: dict[str, str]) -> Page:
        """Send *fields* to an address."""
        return Page(self.request("POST", action, data=fields))

    def confirm(self, page: Page, **fields: str) -> Page:
        """Press the button of a page that asks for a confirmation."""
        return self.submit(page, page.url.partition("?")[0].rpartition("/")[2], **fields)
