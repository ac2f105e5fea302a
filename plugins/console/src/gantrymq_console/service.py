"""The service ``console``: the web console in the broker's process, on the address of the setting consoleListen.

It asks the broker's name servers through a client, like ``gantrymq console``, so pages are made by the same code. The
web framework is imported only if the setting is set.
"""

from __future__ import annotations

import errno
from importlib import import_module
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError
from gantrymq.plugin.interfaces import BrokerEnvironment
from gantrymq.plugin.model import Role, parse_address
from gantrymq.plugin.settings import Setting

if TYPE_CHECKING:
    from gantrymq_console.history.keeping import HistoryOptions
    from gantrymq_console.history.prometheus_options import PrometheusOptions
    from gantrymq_console.running import RunningConsole
_LISTEN: Final = "consoleListen"
_HISTORY: Final = "consoleHistory"
_PROMETHEUS: Final = "consolePrometheus"

SCHEMA: Final = (
    Setting.text(
        _LISTEN,
        "",
        "Address and port of the web console in the broker's process, such as 127.0.0.1:8088; empty: none. "
        "`gantrymq console` runs it in a process of its own.",
    ),
    Setting.flag(_HISTORY, True, "Keep the history of the cluster for the web console in the broker's process."),
    Setting.number(f"{_HISTORY}Hours", 24, "Hours of samples every 10 s in it.", at_least=1, at_most=744),
    Setting.number(f"{_HISTORY}Days", 30, "Days of points of five minutes in it.", at_least=1, at_most=400),
    Setting.number(
        f"{_HISTORY}Bytes",
        100 * 1024 * 1024,
        "Most bytes of its file; the oldest samples are deleted first.",
        at_least=1024 * 1024,
    ),
    Setting.text(
        _PROMETHEUS,
        "",
        "Address of a Prometheus that scrapes the brokers of the cluster, such as http://10.0.0.9:9090; the web "
        "console in the broker's process shows its curves instead of its own.",
    ),
    Setting.text(
        f"{_PROMETHEUS}Labels",
        "",
        "Labels that its series of this cluster have besides the name of the cluster, such as env=prod;site=a.",
    ),
)


class ConsoleService:
    """Serves the console of one broker; may be started again after a stop."""

    name = "console"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        """Create the service without opening the port."""
        self.url = ""  # address for browsers while it serves
        self._running: RunningConsole | None = None

    async def start(self, broker: BrokerEnvironment) -> None:
        """Open the port, unless consoleListen is empty.

        Raises:
            ConfigError: the setting cannot be used, or the port is in use.
        """
        listen = broker.settings.text(_LISTEN).strip()
        if not listen:
            return
        try:
            host, port = parse_address(listen)
        except ValueError as problem:
            raise ConfigError(f"{broker.settings.source(_LISTEN)}: {_LISTEN}: {problem}") from None
        running = await broker.world.workers.run(import_module, "gantrymq_console.running")
        try:
            self._running = running.for_broker(broker, host, _history(broker), _prometheus(broker))
        except ConfigError as problem:
            raise ConfigError(f"{_LISTEN}={listen}: {problem}") from problem
        try:
            self.url = await self._running.start(host, port)
        except OSError as problem:
            taken = problem.errno == errno.EADDRINUSE
            reason = "is taken by another process; choose another one" if taken else f"fails: {problem.strerror}"
            raise ConfigError(f"{_LISTEN}={listen} {reason}") from problem

    async def stop(self) -> None:
        """Close the port. Idempotent."""
        running, self._running, self.url = self._running, None, ""
        if running is not None:
            await running.stop()


def _history(broker: BrokerEnvironment) -> HistoryOptions | None:
    """Return what the settings say about the history, None if none is kept."""
    from gantrymq_console.history.keeping import HistoryOptions

    settings = broker.settings
    if not settings.flag(_HISTORY):
        return None
    hours, days, most_bytes = (settings.number(f"{_HISTORY}{each}") for each in ("Hours", "Days", "Bytes"))
    return HistoryOptions(hours, days, most_bytes)


def _prometheus(broker: BrokerEnvironment) -> PrometheusOptions | None:
    """Return where curves are read, None if they are the console's own. Raises ConfigError."""
    from gantrymq_console.history.prometheus_options import PrometheusOptions

    address = broker.settings.text(_PROMETHEUS).strip()
    labels = [each.strip() for each in broker.settings.text(f"{_PROMETHEUS}Labels").split(";")]
    return PrometheusOptions.of(_PROMETHEUS, address, [each for each in labels if each]) if address else None
