"""A name server and a broker in one process, in any world.

Ports are free ones on the loopback address, the store is small, every installed plugin is loaded. In the real world
`gantrymq_testing.running_broker` runs it in a thread; in a simulated world it runs on the virtual clock.
"""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.client import Client, Credentials, Producer, PullStatus, Reader, SendResult
from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.config import Settings, Value, free_port_keys
from gantrymq.errors import ConfigError, NoRoute
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import Broker, MessageStore, PutResult, RecoveryReport, StoreMessage
from gantrymq.model import properties as property_text
from gantrymq.model.hosts import format_address, parse_address
from gantrymq.model.role import Role
from gantrymq.model.subscription import ALL, TAG
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import Plugins, load_plugins
from gantrymq.world import World
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.accounts import OWN, SETTINGS, Users, credentials_of, write_users

LOOPBACK = "127.0.0.1"
PREFERRED_STORES = ("memory", "mmap")
LOG_FILE_BYTES = 1024 * 1024
QUEUE_FILE_BYTES = 20 * 1000  # 1,000 entries
ROUTE_S = 10.0  # time limit for the name server to know a topic
ROUTE_STEP_S = 0.01
WAIT_S = 10.0  # default time limit of `Cluster.wait_for`
WAIT_STEP_S = 0.02  # and a tenth of the time so far, because simulated waits may take hours
SHOWN = 5  # messages in the error of `Cluster.wait_for`
SOURCE = "gantrymq_testing"

GivenPlugin = Any  # a module or object with hooks, or a pair of name and one


class Watcher:
    """A service that gives a test access to `interfaces.Broker`."""

    name = "gantrymq_testing_watcher"
    roles = frozenset(Role)

    def __init__(self) -> None:
        self.broker: Broker | None = None

    async def start(self, broker: Broker) -> None:
        """Store the broker."""
        self.broker = broker

    async def stop(self) -> None:
        """Drop the broker."""
        self.broker = None


class Cluster:
    """One name server and one broker; call `start`, use it, call `stop`. May be started again on the same folder."""

    def __init__(
        self,
        world: World,
        root: Path,
        settings: Mapping[str, Value] | None = None,
        plugins: Iterable[GivenPlugin] = (),
        users: Users | None = None,
    ) -> None:
        """Prepare the servers without opening anything.

        Args:
            world: clock, network and files; remains open when the cluster stops.
            root: folder for the store (``store``) and the name server's files (``namesrv``).
            settings: of the broker, overriding the defaults for tests; ``plugins`` selects among the installed ones.
            plugins: modules or objects with hooks that are not installed, or pairs of a name and one.
            users: with these, the broker controls access; see `gantrymq_testing.accounts`.

        Raises:
            ConfigError: an undeclared setting, or an invalid value.
            PluginError: a plugin is broken, or no store is installed.
        """
        self.world = world
        self.root = root
        given = {**(SETTINGS if users is not None else {}), **(settings or {})}
        self._users = users
        loaded = load_plugins(str(given.get("plugins", "")), reserved=SCHEMA, extra=map(named, plugins))
        self._watcher = Watcher()
        self.plugins = attrs.evolve(loaded, services=(*loaded.services, self._watcher))
        self.settings = broker_settings(self.plugins, root, given)
        self._given_port = self.settings.number("listenPort")  # of the broker; 0 for a free one
        self._name_server: NameServer | None = None
        self._broker: BrokerServer | None = None
        self._client: Client | None = None  # of `send`
        self.namesrv = ""  # host:port, once started

    @property
    def server(self) -> BrokerServer:
        """The broker itself, while it runs."""
        assert self._broker is not None, "the cluster is not started"
        return self._broker

    @property
    def broker(self) -> Broker:
        """The `interfaces.Broker` of the running broker."""
        assert self._watcher.broker is not None, "the cluster is not started"
        return self._watcher.broker

    @property
    def store(self) -> MessageStore:
        """The broker's store, while it runs."""
        return self.server.store

    @property
    def broker_address(self) -> str:
        """``host:port`` of the broker, while it runs."""
        return format_address(*self.server.address)

    async def start(self) -> RecoveryReport:
        """Start both; returns when requests are accepted and the broker is registered.

        Raises:
            StoreError: the store cannot be used.
        """
        return await self._start(0, self._given_port)

    async def _start(self, name_server_port: int, broker_port: int) -> RecoveryReport:
        """Start both at these ports; 0 for a free one."""
        self.settings.set("listenPort", broker_port, SOURCE)
        values: dict[str, Value] = {"bindAddress": LOOPBACK, "listenPort": name_server_port}
        folder = self.root / "namesrv"
        self.world.files.make_dirs(folder)
        name_server = NameServer(self.world, Settings(name_server_settings(folder), values))
        self.namesrv = format_address(*await name_server.start())
        self._name_server = name_server
        self.settings.set("namesrvAddr", self.namesrv, SOURCE)
        config = self.root / "store" / "config"
        if self._users is not None and self.world.files.stat(config / "users.json") is None:
            write_users(self.world.files, config, self._users)
        try:
            self._broker = BrokerServer(self.world, self.settings, self.plugins)
            return await self._broker.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop both in order, leaving a clean store. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.stop()
        name_server, self._name_server = self._name_server, None
        if name_server is not None:
            await name_server.stop()

    async def restart(self, *, new_ports: bool = False) -> RecoveryReport:
        """Stop cleanly and start again on the same folder, at the same addresses.

        Messages are lost, unless the store is a durable one: ``settings={"store": "mmap"}``.

        Args:
            new_ports: use other free ports, as a broker that moves to another address.

        Raises:
            ConfigError, OSError: another process took a port meanwhile.
        """
        ports = (0, self._given_port) if new_ports else (parse_address(self.namesrv)[1], self.server.address[1])
        await self.stop()
        return await self._start(*ports)

    def client(self) -> Client:
        """Return a client of this world, which may do everything; not started."""
        return Client(self.namesrv, world=self.world, credentials=self.own_credentials)

    @property
    def own_credentials(self) -> Credentials | None:
        """The account of the cluster's own clients; None without users."""
        return None if self._users is None else credentials_of(OWN)

    def credentials(self, user: str) -> Credentials:
        """Return the account of one of the users. Raises KeyError if there is no such user."""
        if user not in (self._users or {}):
            raise KeyError(f"the cluster was started without user {user}")
        return credentials_of(user)

    @asynccontextmanager
    async def producer(self, group: str = "testing_producer", **options: Any) -> AsyncIterator[Producer]:
        """Provide a producer with a client of its own; *options* as for `Client.producer`."""
        async with self.client() as client:
            yield client.producer(group, **options)

    @asynccontextmanager
    async def consumer(self, group: str = "testing_consumer", **options: Any) -> AsyncIterator[Reader]:
        """Provide a reader with a client of its own; *options* as for `Client.reader`."""
        async with self.client() as client:
            yield client.reader(group=group, **options)

    async def create_topic(self, name: str, queues: int = 4) -> None:
        """Create a topic and wait until clients find its route.

        Raises:
            NoRoute: the name server did not know it after ROUTE_S seconds.
        """
        self.broker.topics.put(TopicConfig(name, read_queues=queues, write_queues=queues))
        deadline = self.world.clock.monotonic() + ROUTE_S
        async with self.client() as client, client.admin as admin:
            while True:
                try:
                    await admin.route(name)
                except NoRoute:
                    if self.world.clock.monotonic() > deadline:
                        raise
                    await self.world.clock.sleep(ROUTE_STEP_S)
                else:
                    return

    async def send(self, topic: str, body: bytes, **more: Any) -> SendResult:
        """Send one message as a client does; *more* is passed to `Message` (tags, keys, properties).

        Raises:
            SendFailed: no attempt succeeded; and the other errors of `Producer.send`.
        """
        if self._client is None:
            self._client = self.client()
            await self._client.start()
        return await self._client.producer("testing_sender").send(Message(topic, body, **more))

    async def put(
        self, topic: str, body: bytes, *, queue_id: int = 0, tags: str = "", properties: Mapping[str, str] | None = None
    ) -> PutResult:
        """Store one message as plugins do (`Broker.put`): through interceptors and gates, without a client.

        The topic need not exist; clients read it once it does (`create_topic`).

        Raises:
            RequestError: an interceptor or the store refuses it.
        """
        text = dict(properties or {})
        if tags:
            text[property_text.TAGS] = tags
        message = StoreMessage(topic, queue_id, body, property_text.encode(text), tags_code=tags_code(tags))
        return await self.broker.messages.put(message)

    async def pull(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> list[ReceivedMessage]:
        """Return every message of *topic* that matches *expression*, queue by queue.

        Raises:
            NoRoute: no name server knows the topic.
            BrokerRefused: the broker cannot read the expression, or has no filter of that type.
        """
        found: list[ReceivedMessage] = []
        async with self.consumer("testing_reader") as consumer:
            for queue in await consumer.queues(topic):
                offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
                while offset < end:
                    result = await consumer.pull(queue, offset, expression=expression, expression_type=expression_type)
                    if result.status is PullStatus.FOUND:
                        found += result.messages
                    assert result.next_offset > offset, f"{result.status} at offset {offset} of {queue}"
                    offset = result.next_offset
        return found

    async def wait_for(
        self, topic: str, count: int = 1, timeout_s: float = WAIT_S, expression: str = ALL, expression_type: str = TAG
    ) -> list[ReceivedMessage]:
        """Return the messages of *topic* as `pull`, as soon as there are *count*; the topic need not exist before.

        Raises:
            TimeoutError: there are fewer after *timeout_s* seconds; the text has their bodies.
            as `pull`: everything else.
        """
        clock = self.world.clock
        begun = clock.monotonic()
        while True:
            found: list[ReceivedMessage] = []
            with suppress(NoRoute):
                found = await self.pull(topic, expression, expression_type)
            if len(found) >= count:
                return found
            waited = clock.monotonic() - begun
            if waited >= timeout_s:
                bodies = ", ".join(repr(message.body) for message in found[:SHOWN]) or "none"
                raise TimeoutError(f"{len(found)} of {count} messages are in {topic} after {timeout_s:g} s: {bodies}")
            await clock.sleep(min(max(WAIT_STEP_S, waited / 10), timeout_s - waited))


def named(plugin: GivenPlugin) -> tuple[str, Any]:
    """Return a plugin with its name: the given one, the module's, or its class's."""
    if isinstance(plugin, tuple):
        name, given = plugin
        return str(name), given
    return str(getattr(plugin, "__name__", type(plugin).__name__)), plugin


def broker_settings(plugins: Plugins, root: Path, given: Mapping[str, Value]) -> Settings:
    """Return the settings of a small broker on the loopback address, overridden by *given*.

    Raises:
        ConfigError: *given* has an undeclared key, or an invalid value.
    """
    settings = Settings([*SCHEMA, *plugins.config])
    values: dict[str, Value] = {
        "bindAddress": LOOPBACK,
        "brokerIP1": LOOPBACK,
        "listenPort": 0,
        "brokerName": "broker-a",
        "storePathRootDir": str(root / "store"),
        "store": next((name for name in PREFERRED_STORES if name in plugins.stores), next(iter(plugins.stores), "")),
        "mappedFileSizeCommitLog": LOG_FILE_BYTES,
        "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
    }
    values.update(dict.fromkeys(free_port_keys(plugins.config), 0))
    for key, value in values.items():
        if key in settings.schema:
            settings.set(key, value, SOURCE)
    for key, value in given.items():
        if key not in settings.schema:
            near = difflib.get_close_matches(key, settings.schema, 1)
            raise ConfigError(
                f"no setting is called {key}" + (f"; did you mean {near[0]}?" if near else "; see gantrymq config")
            )
        settings.set(key, value, "the test")
    return settings
