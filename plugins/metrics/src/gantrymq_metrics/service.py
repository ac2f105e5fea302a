"""The service ``metrics``: opens the port, and serves ``/metrics`` and ``/healthz``.

If a port set by the operator is in use, the broker does not start. If the default port is in use, the broker logs a
warning and runs without metrics, so that several brokers can run on one machine.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Any

from gantrymq.errors import ConfigError
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Role, format_address
from gantrymq.plugin.world import TimeSlices
from gantrymq_metrics.exposition import CONTENT_TYPE, families
from gantrymq_metrics.http_request import JSON, HttpResponse
from gantrymq_metrics.http_server import HttpServer
from gantrymq_metrics.send_times import SendTimes
from gantrymq_metrics.settings import HOST, PORT, PROMETHEUS, TYPE
from gantrymq_metrics.snapshot import ScrapeMemory, take_snapshot

log = logging.getLogger(__name__)

LINES_TOGETHER = 200
MOST_WARNINGS = 20
LINES_PER_SLICE = 2000  # before the event loop is yielded


class MetricsService:
    """Exports the metrics of one broker; may be started again after a stop."""

    name = "metrics"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        """Create the service without opening the port."""
        self.address: tuple[str, int] | None = None  # host and port while it serves
        self._broker: Broker | None = None
        self._server: HttpServer | None = None
        self._send_times = SendTimes()
        self._memory = ScrapeMemory()
        self._scrape: asyncio.Task[Sequence[bytes]] | None = None  # the running scrape, shared by concurrent requests

    async def start(self, broker: Broker) -> None:
        """Open the port, unless metricsExporterType disables it.

        Raises:
            ConfigError: the configured port is in use, or its address does not belong to this host.
        """
        if broker.settings.text(TYPE) not in PROMETHEUS:
            return
        self._broker = broker
        host = broker.settings.text(HOST).strip() or broker.metrics.snapshot().address.rpartition(":")[0].strip("[]")
        port = broker.settings.number(PORT)
        server = HttpServer(broker.world, {"/metrics": self._metrics, "/healthz": self._health})
        try:
            self.address = await server.start(host, port)
        except OSError as error:
            sentence = self._refused(host, port, error)
            if error.errno != errno.EADDRINUSE or broker.settings.source(PORT) != "default":
                raise ConfigError(sentence) from error
            log.warning("%s; this broker shows no metrics", sentence)
            return
        self._server = server
        self._send_times = SendTimes()
        broker.messages.on_acknowledged(self._send_times.acknowledged)
        log.info("metrics are on http://%s/metrics", format_address(*self.address))

    async def stop(self) -> None:
        """Close the port. Idempotent."""
        server, self._server, self.address = self._server, None, None
        if server is not None:
            await server.stop()
        if self._scrape is not None:
            self._scrape.cancel()
            await asyncio.wait([self._scrape])
        self._broker = None

    def _refused(self, host: str, port: int, error: OSError) -> str:
        if error.errno == errno.EADDRINUSE:
            return (
                f"the metrics port {port} on {host} is taken by another process; choose another with "
                f"--set {PORT}=PORT (0 picks a free one), or set {TYPE}=DISABLE"
            )
        return f"cannot serve metrics on {host} port {port}: {error.strerror or error}; see {HOST}"

    async def _metrics(self) -> HttpResponse:
        if self._scrape is None:
            self._scrape = asyncio.get_running_loop().create_task(self._text())
            self._scrape.add_done_callback(self._made)
        parts = await asyncio.shield(self._scrape)
        return HttpResponse(200, b"", CONTENT_TYPE, parts)

    def _made(self, scrape: asyncio.Task[Sequence[bytes]]) -> None:
        self._scrape = None
        if not scrape.cancelled():
            scrape.exception()  # marks it as retrieved: all requests may be gone

    async def _text(self) -> Sequence[bytes]:
        """Return the text of all families in parts; yields to the event loop in between."""
        broker = self._broker
        assert broker is not None
        parts, slices = list[bytes](), TimeSlices(broker.world.clock, LINES_PER_SLICE // LINES_TOGETHER)
        for family in families(await take_snapshot(broker, self._send_times, self._memory)):
            parts.append(family.head.encode())
            while lines := "".join(islice(family.lines, LINES_TOGETHER)):
                parts.append(lines.encode())
                await slices.item_done()
            await slices.item_done()
        return parts

    async def _health(self) -> HttpResponse:
        assert self._broker is not None
        found = health(self._broker)
        return HttpResponse(200 if found["healthy"] else 503, json.dumps(found).encode() + b"\n", JSON)


def health(broker: Broker) -> dict[str, Any]:
    """Return the contents of ``/healthz``.

    ``healthy`` is false if ``problems`` is not empty: the store refuses writes, a table cannot be saved, or name
    servers are configured and none of them has the broker registered. A single failing name server of several is
    reported in ``nameServers`` only. ``warnings`` has sentences for which the broker must not be taken out of service:
    about addresses that other machines reach without access control, and those of plugins, such as that a slave does
    not follow. ``access`` names the authorizer and its strategy, null without access control. Plugins add members
    (`MetricFamily.health`), such as ``grpc``.
    """
    figures = broker.metrics.snapshot()
    problems = []
    refusal = broker.store.state().refusal
    if refusal is not None:
        problems.append(f"the store refuses writes: {refusal}")
    problems += figures.unwritten.values()
    servers = figures.name_servers
    if broker.settings.text("namesrvAddr").strip(" ;") and None not in servers.values():
        reasons = "; ".join(f"{address}: {reason}" for address, reason in servers.items()) or "not registered yet"
        problems.append(f"no name server has this broker registered: {reasons}")
    sentences = [said for each in figures.plugin_metrics for said in each.sentences.values()]
    access = broker.access.summary
    found = {
        "healthy": not problems,
        "problems": problems,
        "warnings": [*access.exposures, *sorted(sentences)][:MOST_WARNINGS],
        "access": {"authorizer": access.authorizer, "strategy": access.strategy} if access.authorizer else None,
        "cluster": figures.cluster,
        "broker": figures.broker,
        "address": figures.address,
        "nameServers": {address: reason or "registered" for address, reason in servers.items()},
        "parked": dict(figures.parked),
    }
    for each in figures.plugin_metrics:
        for name, value in each.health.items():
            found.setdefault(name, value)
    return found
