"""Alerts by webhook: checks the cluster every 10 s, also without visitors, and sends alerts that began or ended.

The body is JSON::

    {"version": 1, "name_servers": "10.0.0.1:9876", "sent_ms": 1795770000000, "alerts": [
        {"id": "group_late/billing", "kind": "group_late", "subject": "billing", "status": "firing",
         "summary": "Group billing is 420 s behind: 17 messages wait.", "value": 420.0,
         "since_ms": 1795769580000, "resolved_ms": null}]}

It is sent with POST to the one address that the operator gave. Bodies wait in a short queue. A body that cannot be
delivered is sent again after 1, 2, 4 ... 60 s, for an hour; the console never waits for it. Redirections are not
followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import attrs
import h11

from gantrymq.errors import ConfigError
from gantrymq.plugin.client import within
from gantrymq.plugin.model import is_host_name
from gantrymq.plugin.world import World
from gantrymq_console.data.attention import Alerts, Thresholds, attention, new_dead_letters
from gantrymq_console.history.reading import HistorySource
from gantrymq_console.web.console import Console

log = logging.getLogger(__name__)

_WAITING: Final = 100  # bodies; the oldest are dropped
_TIMEOUT_S: Final = 10.0  # of one attempt
_LONGEST_PAUSE_S: Final = 60.0
GIVEN_UP_S: Final = 3600.0
_REDIRECTED: Final = ", a redirection, which is not followed: give the address to which it leads"
_EXAMPLE: Final = "give one such as https://alerts.example/gantrymq"
EVERY_S: Final = 10.0


def checked_address(text: str) -> SplitResult:
    """Return the parts of the address of a webhook. Raises ConfigError, without the address: it may have a secret."""
    try:
        found = urlsplit(text)
        port = found.port
    except ValueError:
        raise ConfigError(f"--webhook: the address cannot be read; {_EXAMPLE}") from None
    if found.username is not None:
        raise ConfigError("--webhook: a name and password in the address are not supported; use its path or query")
    if found.scheme not in ("http", "https") or port == 0 or not text.isascii() or " " in text:
        raise ConfigError(f"--webhook: this is not an address of HTTP; {_EXAMPLE}")
    if not _is_host(found.hostname or ""):
        raise ConfigError(f"--webhook: the address has no host name that can be resolved; {_EXAMPLE}")
    return found


def _is_host(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return is_host_name(name)
    return True


class Webhook:
    """Sends bodies one after the other."""

    def __init__(self, world: World, address: str) -> None:
        """Create it for an address of http or https. Raises ConfigError: the address cannot be used.

        For https it trusts the authorities of the system, or of the file in $SSL_CERT_FILE, which OpenSSL reads.
        """
        self._world = world
        self._to = checked_address(address)
        self._waiting: deque[bytes] = deque(maxlen=_WAITING)
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.delivered = 0
        self.failed = 0  # attempts

    def send(self, body: Mapping[str, Any]) -> None:
        """Send *body* as JSON, later."""
        self._waiting.append(json.dumps(body).encode())
        self._some.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop; bodies that wait are not sent. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        clock = self._world.clock
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            body = self._waiting.popleft()
            pause, begun = 1.0, clock.monotonic()
            while (problem := await self._attempt(body)) is not None:
                self.failed += 1
                if clock.monotonic() - begun > GIVEN_UP_S:
                    log.error("an alert for the webhook at %s was given up: %s", self._to.hostname, problem)
                    break
                level = logging.WARNING if pause == 1.0 else logging.DEBUG
                log.log(level, "the webhook at %s failed: %s; trying again", self._to.hostname, problem)
                await clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                self.delivered += 1

    async def _attempt(self, body: bytes) -> str | None:
        """Return why *body* was not delivered, None if it was."""
        try:
            status = await within(self._world.clock, _TIMEOUT_S, self._post(body))
        except (OSError, h11.ProtocolError, ValueError, EOFError) as problem:  # ssl.SSLError is an OSError
            return str(problem) or type(problem).__name__
        if status is None:
            return f"no response within {_TIMEOUT_S:g} s"
        return None if 200 <= status < 300 else f"status {status}{_REDIRECTED if 300 <= status < 400 else ''}"

    async def _post(self, body: bytes) -> int:
        """Return the status of the response."""
        to = self._to
        assert to.hostname is not None
        port = to.port or (443 if to.scheme == "https" else 80)
        answer = _Answer()
        transport, _ = await self._world.network.connect(to.hostname, port, lambda: answer)
        try:
            if to.scheme == "https":
                context = ssl.create_default_context()
                loop = asyncio.get_running_loop()
                secured = await loop.start_tls(transport, answer, context, server_hostname=to.hostname)
                assert secured is not None
                transport = secured
            path = (to.path or "/") + (f"?{to.query}" if to.query else "")
            headers = [("Host", to.netloc), ("Content-Type", "application/json")]
            headers += [("Content-Length", str(len(body))), ("Connection", "close"), ("User-Agent", "gantrymq-console")]
            request = h11.Request(method="POST", target=path, headers=headers)
            for event in (request, h11.Data(data=body), h11.EndOfMessage()):
                transport.write(answer.http.send(event) or b"")
            return await answer.status
        finally:
            transport.abort()


class _Answer(asyncio.Protocol):
    """Reads one response up to its status."""

    def __init__(self) -> None:
        self.http = h11.Connection(h11.CLIENT)
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Read the head of the response."""
        if self.status.done():
            return
        try:
            self.http.receive_data(data)
            event = self.http.next_event()
            while isinstance(event, h11.InformationalResponse):
                event = self.http.next_event()
        except h11.RemoteProtocolError as problem:
            self.status.set_exception(problem)
            return
        if isinstance(event, h11.Response):
            self.status.set_result(event.status_code)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail unless the status is known."""
        if not self.status.done():
            self.status.set_exception(exc or EOFError("the connection was closed without a response"))
            self.status.exception()  # its caller may have stopped waiting


class Alerting:
    """Watches for alerts from `start` to `close`."""

    def __init__(self, console: Console, webhook: Webhook, thresholds: Thresholds, past: HistorySource) -> None:
        """Create it; new dead letters are those of *past*, which also a console without a history has."""
        self._console = console
        self._past = past
        self._webhook = webhook
        self._alerts = Alerts(thresholds)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._webhook.close()

    async def look(self) -> None:
        """Check the cluster once and send the alerts that changed."""
        console = self._console
        now_ms = console.world.clock.now_ms()
        found = await attention(console.cluster, console.past)
        letters = await new_dead_letters(console.cluster, self._past)
        told = self._alerts.update(found.value, None if letters is None else letters.counts, now_ms)
        if told:
            alerts = [attrs.asdict(each) for each in told]
            names = console.name_servers
            self._webhook.send({"version": 1, "name_servers": names, "sent_ms": now_ms, "alerts": alerts})

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("the look for alerts failed")
            await self._console.world.clock.sleep(EVERY_S)
