"""The broker as passed to plugins (`gantrymq.interfaces.Broker`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gantrymq.broker.metrics import MetricsReader
from gantrymq.broker.parts import Parts
from gantrymq.errors import PluginError, RequestNotSupported, RequestRefused, install_command
from gantrymq.interfaces import AllocationStrategy
from gantrymq.world.files import make_durable_dirs


class BrokerFacade:
    """The parts of the broker that plugins use, by name."""

    def __init__(self, parts: Parts, connections: Callable[[], int]) -> None:
        """*connections* returns the number of open connections for `BrokerMetrics`."""
        self.world = parts.world
        self.settings = parts.settings
        self.store, self.store_capabilities = parts.store, parts.store_capabilities
        self.store_host = parts.identity.packed_host
        self.root = parts.root
        self.bit_maps, self.clean_start = parts.bit_maps, parts.clean_start
        self.messages = parts.messages
        self.topics, self.groups, self.offsets = parts.topics, parts.groups, parts.offset_commits
        self.lags = parts.lags
        self.clients, self.locks = parts.clients, parts.locks
        self.held_pulls, self.filters = parts.held_pulls, parts.filters
        self.registration, self.access = parts.registration, parts.access
        self.role, self.tables = parts.roles, parts.snapshots
        self.metrics = MetricsReader(parts, connections)
        self._plugins = parts.plugins
        self._strategies: dict[str, AllocationStrategy] = {}  # created on first use

    def allocation(self, name: str) -> AllocationStrategy:
        """Return an allocation strategy with its default settings."""
        if name not in self._strategies:
            try:
                factory = self._plugins.allocation(name)
            except PluginError as problem:
                raise RequestRefused(problem.response_code, str(problem)) from None
            self._strategies[name] = factory({})
        return self._strategies[name]

    def service(self, name: str) -> Any:
        """Return the service with this name."""
        for each in self._plugins.services:
            if each.name == name:
                return each
        distribution = f"gantrymq-{name}"
        if distribution in self._plugins.left_out:
            plugin = self._plugins.left_out[distribution]
            raise RequestNotSupported(
                f"the service {name} is of the plugin {plugin}, which plugins= leaves out; add it there, and restart "
                "the broker"
            )
        raise RequestNotSupported(
            f"no installed plugin offers the service {name}; install it with: {install_command(distribution)}"
        )

    def state_folder(self, plugin: str) -> Path:
        """Return a folder of the store for files of *plugin*."""
        folder = self.root / "plugins" / plugin
        make_durable_dirs(self.world.files, folder)
        return folder
