"""The broker as plugins see it: `Broker`, and its parts by user.

A hint of a plugin names the narrowest protocol that has what the function uses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from gantrymq.config import Settings
from gantrymq.interfaces.access import Access
from gantrymq.interfaces.clients import Clients
from gantrymq.interfaces.consuming import Filters, HeldPulls, Offsets, QueueLocks
from gantrymq.interfaces.extension_points import AllocationStrategy
from gantrymq.interfaces.filtering import BitMaps
from gantrymq.interfaces.lags import Lags
from gantrymq.interfaces.messages import Messages
from gantrymq.interfaces.metrics import Metrics
from gantrymq.interfaces.registration import Registration
from gantrymq.interfaces.roles import BrokerRole, StateTables
from gantrymq.interfaces.store import MessageStore, StoreCapabilities
from gantrymq.interfaces.topics_and_groups import Groups, Topics
from gantrymq.world import World

__all__ = ["Broker", "BrokerCluster", "BrokerConsumers", "BrokerEnvironment", "BrokerStorage"]


class BrokerEnvironment(Protocol):
    """What most parts of a plugin use: time, files, settings and topics."""

    @property
    def world(self) -> World:
        """Clock, network and files."""

    @property
    def settings(self) -> Settings:
        """The current settings."""

    @property
    def root(self) -> Path:
        """The store's folder; RocketMQ's configuration files are in its ``config`` subfolder."""

    @property
    def topics(self) -> Topics:
        """The broker's topics."""

    def state_folder(self, plugin: str) -> Path:
        """Return a folder of the store for files of *plugin*; created on first use."""


class BrokerStorage(BrokerEnvironment, Protocol):
    """A broker for plugins that store and read messages."""

    @property
    def messages(self) -> Messages:
        """Sends, pulls, reads and queries."""

    @property
    def store(self) -> MessageStore:
        """The open store."""

    @property
    def store_capabilities(self) -> StoreCapabilities:
        """The optional interfaces of the store, such as its raw log."""

    @property
    def store_host(self) -> bytes:
        """The broker's address in the encoding of records, see model.hosts."""

    @property
    def bit_maps(self) -> BitMaps:
        """Functions that compute the bits of ext units; plugins add theirs. A store without ext files ignores them."""

    @property
    def clean_start(self) -> bool:
        """Whether the store was shut down normally before this start."""


class BrokerConsumers(BrokerEnvironment, Protocol):
    """A broker for plugins that serve or watch consumers."""

    @property
    def groups(self) -> Groups:
        """The broker's consumer groups."""

    @property
    def offsets(self) -> Offsets:
        """Committed offsets of groups, and their last pulls."""

    @property
    def lags(self) -> Lags:
        """Messages that groups have not consumed."""

    @property
    def clients(self) -> Clients:
        """Connected producers and consumers."""

    @property
    def locks(self) -> QueueLocks:
        """Queue locks of ordered consumers."""

    @property
    def held_pulls(self) -> HeldPulls:
        """Pulls that wait for messages."""

    @property
    def filters(self) -> Filters:
        """Compiled subscriptions."""


class BrokerCluster(BrokerEnvironment, Protocol):
    """A broker for plugins of operation: its place in the cluster, access and metrics."""

    @property
    def registration(self) -> Registration:
        """The broker's name and address, and its cluster."""

    @property
    def role(self) -> BrokerRole:
        """The broker's role."""

    @property
    def tables(self) -> StateTables:
        """Snapshots of all tables."""

    @property
    def access(self) -> Access:
        """Access decisions."""

    @property
    def metrics(self) -> Metrics:
        """Counters of the broker, and metrics of plugins."""

    def allocation(self, name: str) -> AllocationStrategy:
        """Return an allocation strategy with its default settings. Raises RequestRefused (code 1) if there is none."""

    def service(self, name: str) -> Any:
        """Return the service that a plugin registered with this name, such as ``pop``.

        Raises:
            RequestNotSupported: there is none; the sentence names the plugin to install if core knows it.
        """


class Broker(BrokerStorage, BrokerConsumers, BrokerCluster, Protocol):
    """The broker's interface for plugins. All methods must be called from the event loop's thread."""
