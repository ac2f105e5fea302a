"""Asks name servers for the route of a topic, for brokers and their plugins; clients keep routes of their own.

Source: apache/rocketmq broker/.../topic/TopicRouteInfoManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from gantrymq import loose_json
from gantrymq.errors import BrokerRefused, ClientError, FormatError
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import request
from gantrymq.remoting.headers.nameserver import GetRouteinfoByTopicRequest

__all__ = ["ask_route"]

ASK_TIMEOUT_S: Final = 3.0  # TopicRouteInfoManager.GET_TOPIC_ROUTE_TIMEOUT

Part = TypeVar("Part")


async def ask_route(
    client: RemotingClient, name_servers: Iterable[str], topic: str, read: Callable[[Any], list[Part]]
) -> list[Part] | None:
    """Return what *read* finds in the route of *topic*, of the first name server that responds.

    Args:
        client: sends the requests.
        name_servers: addresses, tried in order.
        topic: its name.
        read: takes the parsed route.

    Returns:
        An empty list for an unknown topic; None without name servers.

    Raises:
        ClientError: no name server responds, or none with a route that can be read; the last one's error.
    """
    problem: ClientError | None = None
    for address in name_servers:
        try:
            return await _ask(client, address, topic, read)
        except ClientError as error:
            problem = error
    if problem is not None:
        raise problem
    return None


async def _ask(client: RemotingClient, address: str, topic: str, read: Callable[[Any], list[Part]]) -> list[Part]:
    header = GetRouteinfoByTopicRequest(topic=topic, accept_standard_json_only=True)
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_ext())
    answer = await client.call(address, command, timeout_s=ASK_TIMEOUT_S)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return []
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark or "no reason given", address)
    try:
        return read(loose_json.loads(answer.payload))
    except (FormatError, KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BrokerRefused(1, f"its route of {topic} cannot be read: {error!r}", address) from error
