"""``gantrymq access check``: what a server lets clients do that have no account."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Literal

import attrs
import click

from gantrymq.client import Admin, Client, NoPermission
from gantrymq.client.admin import NotANameServer, RequestNotServed
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.plugin.commands import check_address, output_option, print_json, run
from gantrymq.plugin.headers import Header
from gantrymq.plugin.model import parse_address
from gantrymq.plugin.real_world import real_world
from gantrymq.plugin.remoting import RequestCode
from gantrymq.plugin.world import World
from gantrymq_admin.commands.lists import Columns, print_records

Answer = Literal["open", "closed", "not served", "no answer"]

_ACCOUNT: Final = "GANTRYMQ_"  # variables of the environment that name an account begin with it
_NOWHERE: Final = "gantrymq access check"  # no legal name of a topic or broker: the requests have no effect
_METRICS_PORT: Final = "metricsPromExporterPort"
_HA_PORT: Final = "haListenPort"
_CONNECT_S: Final = 3.0
_COLUMNS: Final[Columns] = ("what", "port", ("Without an account", "answer"), "advice")


class _Fields(Header):
    """A header of any fields."""

    __slots__ = ("_ext",)

    def __init__(self, ext: Mapping[str, str]) -> None:
        self._ext = dict(ext)

    def to_ext(self) -> dict[str, str]:
        """Return the fields."""
        return dict(self._ext)


@attrs.frozen
class Probe:
    """A request without effect that shows whether such requests need an account."""

    what: str
    code: RequestCode
    fields: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes | None = None


_SEND: Final = {"producerGroup": "TOOLS_PRODUCER", "topic": _NOWHERE, "defaultTopic": _NOWHERE, "sysFlag": "0"}
_PULL: Final = {"consumerGroup": "TOOLS_CONSUMER", "topic": _NOWHERE, "queueId": "0", "queueOffset": "0"}
BROKER: Final[tuple[Probe, ...]] = (
    Probe(
        "send messages",
        RequestCode.SEND_MESSAGE,
        {**_SEND, "defaultTopicQueueNums": "0", "queueId": "0", "bornTimestamp": "0", "flag": "0"},
    ),
    Probe(
        "receive messages",
        RequestCode.PULL_MESSAGE,
        {
            **_PULL,
            "maxMsgNums": "1",
            "sysFlag": "0",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subVersion": "0",
        },
    ),
    Probe("read settings", RequestCode.GET_BROKER_CONFIG),
    Probe("change settings", RequestCode.UPDATE_BROKER_CONFIG, body=b""),
    Probe("delete topics", RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": _NOWHERE}),
    Probe("delete groups", RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": _NOWHERE}),
    Probe("list users", RequestCode.AUTH_LIST_USER),
)
NAME_SERVER: Final[tuple[Probe, ...]] = (
    Probe("read routes", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": _NOWHERE}),
    Probe("read settings", RequestCode.GET_NAMESRV_CONFIG),
    Probe("change settings", RequestCode.UPDATE_NAMESRV_CONFIG, body=b""),
    Probe("delete topics", RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": _NOWHERE}),
    Probe("stop sends to brokers", RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": _NOWHERE}),
    Probe(
        "register and unregister brokers",
        RequestCode.UNREGISTER_BROKER,
        {"brokerName": _NOWHERE, "brokerAddr": "127.0.0.1:1", "clusterName": _NOWHERE, "brokerId": "0"},
    ),
)
_HARMLESS: Final = ("read routes",)  # open on purpose, unless routeAccess=true
_TO_BROKERS: Final = "set authenticationEnabled=true and authorizationEnabled=true in its broker.conf"
_TO_NAME_SERVERS: Final = "set authorizer=acl and accessPath in its namesrv.conf; RocketMQ's have none: a firewall"
_TO_LOG: Final = "it gives the log to everybody without haSecretPath or haTlsEnable, or a firewall"
_TO_METRICS: Final = "figures and names of topics and groups; metricsPromExporterHost=127.0.0.1, or a firewall"


@attrs.frozen
class Finding:
    """What a client without an account may do at one port."""

    what: str
    port: int
    answer: Answer
    advice: str = ""  # if it is open and should not be


async def find_open(admin: Admin, world: World, address: str) -> list[Finding]:
    """Return the findings about one server.

    Args:
        admin: of a client without an account.
        world: for connections to other ports of the server.
        address: host:port of a name server or broker.

    Raises:
        ConnectFailed, ConnectionLost, CallTimeout: it does not answer.
    """
    try:
        await admin.clusters(address)
    except NotANameServer:
        probes, advice = BROKER, _TO_BROKERS
    except NoPermission:
        probes, advice = NAME_SERVER, _TO_NAME_SERVERS
    else:
        probes, advice = NAME_SERVER, _TO_NAME_SERVERS
    host, port = parse_address(address)
    found = []
    for probe in probes:
        answer = await _answer(admin, address, probe)
        is_fault = answer == "open" and probe.what not in _HARMLESS
        found.append(Finding(probe.what, port, answer, advice if is_fault else ""))
    if probes is BROKER:
        found += await _other_ports(admin, world, address, host, port)
    return found


async def _answer(admin: Admin, address: str, probe: Probe) -> Answer:
    try:
        await admin.request(address, probe.code, _Fields(probe.fields), probe.body)
    except NoPermission:
        return "closed"
    except RequestNotServed:
        return "not served"
    except BrokerRefused:
        return "open"  # the request was refused for what it names, after access was granted
    return "open"


async def _other_ports(admin: Admin, world: World, address: str, host: str, port: int) -> list[Finding]:
    """Return whether the ports for slaves and metrics accept connections; their defaults if settings are closed."""
    try:
        settings = await admin.broker_settings(address)
    except ClientError:
        settings = {}
    found = []
    for what, key, default, advice in (
        ("copy the log (HA port)", _HA_PORT, port + 1, _TO_LOG),
        ("read metrics", _METRICS_PORT, 5557, _TO_METRICS),
    ):
        number = int(settings.get(key) or default)
        if number:
            is_open = await _accepts(world, host, number)
            found.append(Finding(what, number, "open" if is_open else "no answer", advice if is_open else ""))
    return found


async def _accepts(world: World, host: str, port: int) -> bool:
    """Return whether a port accepts connections."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            transport, _ = await world.network.connect(host, port, asyncio.Protocol)
    except (OSError, TimeoutError):
        return False
    transport.close()
    return True


@click.command()
@click.argument("address", callback=check_address, metavar="ADDRESS")
@click.option("--tls", is_flag=True, help="Connect with TLS.")
@output_option
def check(address: str, tls: bool, output: str) -> None:
    """List what clients without an account may do at a name server or broker; exit with 1 if it is too much.

    ADDRESS is host:port. Run it from a machine of your clients' network. The requests have no effect. An account in the
    environment is not used.
    """
    found = run(_check(address, tls))
    if output == "json":
        print_json({"address": address, "findings": [attrs.asdict(each) for each in found]})
    else:
        print_records(found, _COLUMNS)
    faults = [each for each in found if each.advice]
    if faults:
        raise ClientError(f"{address} is open without an account: {', '.join(each.what for each in faults)}")


async def _check(address: str, tls: bool) -> list[Finding]:
    world = real_world()
    environ = {name: value for name, value in world.environ.items() if not name.startswith(_ACCOUNT)}
    world = attrs.evolve(world, environ=environ)
    async with Client(address, world=world, tls=True if tls else None) as client, client.admin as admin:
        return await find_open(admin, world, address)
