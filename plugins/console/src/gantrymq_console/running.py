"""A console that listens: its client, its application and its port."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

from gantrymq.client import Client
from gantrymq.plugin.interfaces import BrokerEnvironment
from gantrymq.plugin.model import format_address
from gantrymq.plugin.network import Certificates
from gantrymq.plugin.world import Lock, World
from gantrymq_console import pages
from gantrymq_console.access.audit import Audit, FileAudit, lock_state
from gantrymq_console.access.exposure import Exposure, entrance_of_broker
from gantrymq_console.access.users import Identities
from gantrymq_console.alerting import Alerting, Webhook
from gantrymq_console.data.attention import Thresholds
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.decoders.registry import Decoders
from gantrymq_console.history.keeping import History, HistoryOptions
from gantrymq_console.history.prometheus import PrometheusHistory
from gantrymq_console.history.prometheus_options import PrometheusOptions
from gantrymq_console.history.reading import HistorySource, NoHistory
from gantrymq_console.web.app import App
from gantrymq_console.web.console import Console
from gantrymq_console.web.http_server import HttpServer, limits_alone, limits_in_broker
from gantrymq_console.web.pages import Section
from gantrymq_console.web.render import compile_template, templates

_MODULES: Final = [import_module(f"{pages.__name__}.{each.name}") for each in iter_modules(pages.__path__)]
SECTIONS: Final[tuple[Section, ...]] = tuple(each.SECTION for each in _MODULES if hasattr(each, "SECTION"))
"""``SECTION`` of every module of `gantrymq_console.pages` that has one."""

_ANY_ADDRESSES: Final = ("0.0.0.0", "::")
_STATE_FOLDER: Final = "console"  # in the store's folder: users, audit log and history


class RunningConsole:
    """One console, from `start` to `stop`."""

    def __init__(
        self,
        world: World,
        namesrv: str,
        identities: Identities,
        audit: Audit,
        exposure: Exposure,
        certificates: Certificates | None = None,
        lock: Lock | None = None,
        *,
        in_broker: bool = False,
        state: Path | None = None,
        history: HistoryOptions | None = None,
        prometheus: PrometheusOptions | None = None,
        docs: str = "",
        decoders: Decoders | None = None,
    ) -> None:
        """Create it.

        Args:
            world: of the process.
            namesrv: addresses of the name servers.
            identities: who may log in.
            audit: where changes are written.
            exposure: who reaches it.
            certificates: for HTTPS.
            lock: of the folder *state*, which `stop` releases.
            in_broker: whether it shares the process of a broker.
            state: folder of its files.
            history: what is kept of the time before, None: nothing.
            prometheus: where curves are read instead; None: they are those that are kept.
            docs: address of the documentation for links, with a slash at the end; empty: the console's own page.
            decoders: of bodies; None: those of plugins that name their topics.
        """
        self._lock = lock
        self._scheme = "http" if certificates is None else "https"
        self._world = world
        self._client = Client(namesrv, world=world)
        self._cluster = Cluster(self._client, world)
        self._history = History(self._cluster, history, state) if history is not None else None
        past: HistorySource = self._history or NoHistory()
        if prometheus is not None:
            past = PrometheusHistory(self._cluster, prometheus, past)
        self.console = Console(
            self._cluster,
            world,
            identities,
            audit,
            exposure,
            SECTIONS,
            namesrv,
            in_broker,
            state,
            docs,
            decoders or Decoders(),
            past=past,
        )
        descriptors = world.descriptors()
        limits = limits_in_broker(descriptors) if in_broker else limits_alone(descriptors, exposure.is_proxy)
        self._app = App(self.console)
        self._server = HttpServer(self._app, world, certificates, limits)
        self._alerting: Alerting | None = None
        self._compiling: asyncio.Future[None] | None = None  # templates

    def alert(self, webhook: Webhook, thresholds: Thresholds) -> None:
        """Send alerts from `start` on."""
        if self._history is None:  # new dead letters are counted for alerts all the same
            self._history = History(self._cluster, HistoryOptions(hours=1, days=1))
        self._alerting = Alerting(self.console, webhook, thresholds, self._history)

    async def start(self, host: str, port: int) -> str:
        """Start, and return the address for browsers.

        Raises:
            OSError: the port is in use or the address is not local.
            ClientError: the client cannot be started.
        """
        await self._client.start()
        try:
            bound = await self._server.start(host, port)
        except BaseException:
            await self._client.close()
            raise
        self._compiling = asyncio.ensure_future(self._compile())
        if self._history is not None:
            self._history.begin()
        if self._alerting is not None:
            self._alerting.start()
        name, port = bound
        if name in _ANY_ADDRESSES:
            name = min(self.console.exposure.hosts, default="localhost")
        return f"{self._scheme}://{format_address(name, port)}/"

    async def _compile(self) -> None:
        """Compile all templates; requests come first, because both take the time of the interpreter."""
        for name in await self._world.workers.run(templates):
            await self._server.idle()
            await self._world.workers.run(compile_template, name)

    async def stop(self) -> None:
        """Stop. Idempotent."""
        await self._server.stop()
        if self._compiling is not None:
            self._compiling.cancel()
            await asyncio.wait([self._compiling])
        if self._alerting is not None:
            await self._alerting.close()
        await self.console.jobs.close()
        await self._app.close()
        if self._history is not None:
            await self._history.close()
        await self._cluster.close()
        await self._client.close()
        if isinstance(self.console.audit, FileAudit):
            await self.console.audit.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def for_broker(
    broker: BrokerEnvironment, host: str, history: HistoryOptions | None, prometheus: PrometheusOptions | None
) -> RunningConsole:
    """Return the console of the service in a broker's process, which asks the broker's name servers.

    Raises:
        ConfigError: others reach *host*, and there is no user, or no certificate; another console uses the folder.
    """
    state = broker.root / _STATE_FOLDER
    way_in = entrance_of_broker(broker, host, state)
    lock = lock_state(broker.world.files, state)
    namesrv = broker.settings.text("namesrvAddr")
    audit = FileAudit(broker.world, state)
    identities, exposure = way_in.identities, way_in.exposure
    certificates = way_in.certificates
    return RunningConsole(
        broker.world,
        namesrv,
        identities,
        audit,
        exposure,
        certificates,
        lock,
        in_broker=True,
        state=state,
        history=history,
        prometheus=prometheus,
    )
