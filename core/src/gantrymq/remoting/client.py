"""Client side of the remoting protocol: connections to servers, one per address, opened on demand.

`ask_route` asks name servers for the route of a topic, for brokers and their plugins; clients keep their own routes.

Source of the rules: apache/rocketmq remoting/.../netty/NettyRemotingClient.java (GO_AWAY),
broker/.../topic/TopicRouteInfoManager.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from gantrymq import loose_json
from gantrymq.errors import BrokerRefused, ClientError, ConnectFailed, FormatError, HandshakeFailed, LocalProtocolError
from gantrymq.model import hosts
from gantrymq.remoting.codes import SERIALIZE_JSON, RequestCode, ResponseCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection, RequestHandler
from gantrymq.remoting.headers.nameserver import GetRouteinfoByTopicRequest
from gantrymq.remoting.limits import Limits, UnfinishedFrames, UnwrittenBytes
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.world import World

CLOSE_GRACE_S: Final = 1.0
GO_AWAY_GRACE_S: Final = 3.0  # for pending calls on a connection after GO_AWAY


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        LocalProtocolError: the port is missing or outside 0..65535.
    """
    try:
        return hosts.parse_address(text)
    except ValueError as error:
        raise LocalProtocolError(f"{text!r} is not an address: expected host:port") from error


class RemotingClient:
    """Connections by address ``host:port``. Requests from servers are passed to *handler*.

    Without a handler such requests are answered with code 3. *serialize* is the header format of sent requests.
    """

    def __init__(
        self,
        world: World,
        *,
        handler: RequestHandler | None = None,
        limits: Limits | None = None,
        serialize: int = SERIALIZE_JSON,
        tls: TlsClient | None = None,
        sign: Callable[[Command], object] | None = None,
    ) -> None:
        """Read the files of *tls* (None for plain connections) without opening a connection.

        *sign* is called with each request of `call` and `oneway` before it is sent.

        Raises:
            ConfigError: a TLS file cannot be used.
        """
        self.limits = limits or Limits()
        self._world = world
        self._handler = handler
        self._serialize = serialize
        self._tls = None if tls is None else tls.context()
        self._sign = sign
        self._unfinished = UnfinishedFrames(self.limits.max_unfinished_bytes)
        self._unwritten = UnwrittenBytes(self.limits.max_unwritten_total_bytes, world.clock.monotonic)
        self._connections: dict[str, Connection] = {}  # used by new calls
        self._opened: dict[Connection, None] = {}  # all open ones
        self._emptied: asyncio.Event | None = None
        self._attempts: dict[str, asyncio.Task[Connection]] = {}
        self._on_open: list[Callable[[str], None]] = []
        self._on_close: list[Callable[[str, Connection], None]] = []
        self._closed = False

    @property
    def signs(self) -> bool:
        """Whether requests are signed."""
        return self._sign is not None

    async def call(self, address: str, command: Command, timeout_s: float = 3.0) -> Command:
        """Send a request and return its response, also if that has an error code.

        After a response GO_AWAY (the server is about to stop) the request is sent once more on a new connection.

        Args:
            timeout_s: seconds for the response, counted from the write; opening a connection has its own limit.
        Raises:
            ConnectFailed, ConnectionLost, CallTimeout: as named.
            LocalProtocolError: the address or the command is malformed.
        """
        if self._sign is not None:
            self._sign(command)
        connection = self.connected(address) or await self.connect(address)
        answer = await connection.call(command, timeout_s)
        if answer.code != ResponseCode.GO_AWAY:
            return answer
        self._retire(address, connection)
        return await (await self.connect(address)).call(command, timeout_s)

    async def oneway(self, address: str, command: Command, timeout_s: float = 3.0) -> None:
        """Send a request without a response. Raises like `writable`."""
        if self._sign is not None:
            self._sign(command)
        (await self.writable(address, timeout_s)).oneway(command)

    async def writable(self, address: str, timeout_s: float) -> Connection:
        """Return a connection to *address* that can be written to. Write before the next await.

        Callers that wait for the peer to read proceed in order, on a new connection if necessary.

        Raises:
            ConnectFailed: no connection could be made.
            CallTimeout: the peer reads nothing for *timeout_s* seconds.
        """
        while True:
            connection = await self.connect(address)
            if await connection.writable(timeout_s):
                return connection

    async def connect(self, address: str) -> Connection:
        """Return the connection to *address*, opening it if there is none; callers share one attempt.

        Raises:
            ConnectFailed: refused, unreachable, or not open within ``limits.connect_timeout_s``.
        """
        connection = self._connections.get(address)
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise ConnectFailed(f"{address}: this client is closed")
        attempt = self._attempts.get(address)
        if attempt is None:
            host, port = parse_address(address)
            attempt = asyncio.get_running_loop().create_task(self._open(address, host, port))
            self._attempts[address] = attempt
            attempt.add_done_callback(lambda done: self._settle(address, done))
        try:
            # Callers share the attempt, so the cancellation of one must not end it.
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled():
                raise ConnectFailed(f"{address}: this client was closed while connecting") from None
            raise

    def connected(self, address: str) -> Connection | None:
        """Return the open connection to *address*, or None."""
        connection = self._connections.get(address)
        return None if connection is None or connection.closed else connection

    def on_open(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(address)`` for each new connection; its writes precede all other calls."""
        self._on_open.append(callback)

    def on_close(self, callback: Callable[[str, Connection], None]) -> None:
        """Call ``callback(address, connection)`` for each closed connection."""
        self._on_close.append(callback)

    async def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Close all connections. Pending calls fail with ConnectionLost, later calls with ConnectFailed.

        Buffered data has *grace_s* seconds to be written.
        """
        self._closed = True
        attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        if not self._opened:
            return
        self._emptied = asyncio.Event()
        for connection in list(self._opened):
            connection.close()
        timer = self._world.clock.call_later(grace_s, self._cut_off)
        await self._emptied.wait()
        timer.cancel()

    def _cut_off(self) -> None:
        for connection in list(self._opened):
            connection.abort()

    async def _open(self, address: str, host: str, port: int) -> Connection:
        """Connect within the time limit, measured with the world's clock and not with the loop's."""
        limit = self.limits.connect_timeout_s
        opening = asyncio.ensure_future(self._dial(host, port))
        timer = self._world.clock.call_later(limit, opening.cancel)
        try:
            connection = await opening
        except asyncio.CancelledError:
            # Cancelled by `close`, which sets `_closed` first; otherwise by the timer.
            if self._closed:
                opening.cancel()
                raise
            raise ConnectFailed(f"{address}: no connection within {limit:g} s") from None
        except OSError as error:
            failed = HandshakeFailed if isinstance(error, HandshakeFailed) else ConnectFailed
            raise failed(f"{address}: {error.strerror or error}") from error
        finally:
            timer.cancel()
        self._connections[address] = connection
        self._opened[connection] = None
        connection.on_close(lambda gone: self._lost(address, gone))
        for callback in self._on_open:
            callback(address)
        return connection

    async def _dial(self, host: str, port: int) -> Connection:
        """Connect and wait for the TLS handshake if there is one."""
        _, connection = await self._world.network.connect(host, port, self._protocol)
        assert isinstance(connection, Connection)
        try:
            await connection.secured()
        except BaseException:
            connection.abort()
            raise
        return connection

    def _protocol(self) -> Connection:
        connection = Connection(
            self._world, self._handler, self.limits, self._unfinished, self._unwritten, sniffing=False, tls=self._tls
        )
        connection.serialize = self._serialize
        return connection

    def _settle(self, address: str, attempt: asyncio.Task[Connection]) -> None:
        self._attempts.pop(address, None)
        if not attempt.cancelled():
            attempt.exception()  # already raised in the callers; avoids asyncio's warning

    def _retire(self, address: str, connection: Connection) -> None:
        """Stop using *connection* for new calls and close it after a grace period."""
        if self._connections.get(address) is connection:
            del self._connections[address]
        self._world.clock.call_later(GO_AWAY_GRACE_S, connection.close)

    def _lost(self, address: str, connection: Connection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]
        self._opened.pop(connection, None)
        if self._emptied is not None and not self._opened:
            self._emptied.set()
        for callback in self._on_close:
            callback(address, connection)


ASK_TIMEOUT_S: Final = 3.0  # TopicRouteInfoManager.GET_TOPIC_ROUTE_TIMEOUT

Part = TypeVar("Part")


async def ask_route(
    client: RemotingClient,
    name_servers: Iterable[str],
    topic: str,
    read: Callable[[Any], list[Part]],
    *,
    with_details: bool = False,
) -> list[Part] | None:
    """Return what *read* finds in the route of *topic*, of the first name server that responds.

    Args:
        client: sends the requests.
        name_servers: addresses, tried in order.
        topic: its name.
        read: takes the parsed route.
        with_details: also ask for the addresses of listeners and the topic's attributes, which only GantryMQ's name
            servers send.

    Returns:
        An empty list for an unknown topic; None without name servers.

    Raises:
        ClientError: no name server responds, or none with a route that can be read; the last one's error.
    """
    header = GetRouteinfoByTopicRequest(
        topic=topic, accept_standard_json_only=True, with_details=True if with_details else None
    )
    problem: ClientError | None = None
    for address in name_servers:
        try:
            return await _ask(client, address, header, read)
        except ClientError as error:
            problem = error
    if problem is not None:
        raise problem
    return None


async def _ask(
    client: RemotingClient, address: str, header: GetRouteinfoByTopicRequest, read: Callable[[Any], list[Part]]
) -> list[Part]:
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_ext())
    answer = await client.call(address, command, timeout_s=ASK_TIMEOUT_S)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return []
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark or "no reason given", address)
    try:
        return read(loose_json.loads(answer.payload))
    except (FormatError, KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BrokerRefused(1, f"its route of {header.topic} cannot be read: {error!r}", address) from error
