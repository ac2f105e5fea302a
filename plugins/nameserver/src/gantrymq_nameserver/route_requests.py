"""Requests of clients and tools about routes, topics and clusters.

Source: apache/rocketmq namesrv/.../processor/{ClientRequestProcessor,DefaultRequestProcessor}.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gantrymq.errors import FormatError, RequestError, TopicNotExist
from gantrymq.plugin.headers import (
    AddWritePermOfBrokerResponse,
    DeleteTopicInNamesrvRequest,
    GetRouteinfoByTopicRequest,
    GetTopicsByClusterRequest,
    RegisterTopicInNamesrvRequest,
    WipeWritePermOfBrokerResponse,
    WritePermOfBrokerRequest,
)
from gantrymq.plugin.loose_json import COUNT, Items, dumps, dumps_standard, number_in, object_in, objects_in, text_in
from gantrymq.plugin.model import Action
from gantrymq.plugin.network import DEFAULT_LISTENER
from gantrymq.plugin.remoting import Command, RequestCode, SlicedResponses, response_to, serves
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Clock
from gantrymq_nameserver import topics
from gantrymq_nameserver.handlers import in_cluster, listener_of, read_object, wants_standard_json
from gantrymq_nameserver.kv import ORDER_TOPIC_CONFIG, KvConfig
from gantrymq_nameserver.routes import find_route, keep_zone, use_listener
from gantrymq_nameserver.tables import QueueData, RouteTables


class RouteRequests:
    """Handlers of clients' and tools' requests; waitSecondsForService is counted from the creation of this object."""

    def __init__(self, tables: RouteTables, kv: KvConfig, settings: Settings, clock: Clock) -> None:
        self._tables = tables
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._sliced = SlicedResponses(clock).make
        self._started = clock.monotonic()

    @serves(RequestCode.GET_ROUTEINFO_BY_TOPIC, action=(Action.PUB, Action.SUB, Action.GET), topic="topic")
    def _route(self, request: Command, connection: object) -> Command:
        header = GetRouteinfoByTopicRequest.from_ext(request.ext)
        self._check_ready()
        acting_master, details = self._settings.flag("supportActingMaster"), bool(header.with_details)
        route = find_route(self._tables, header.topic, acting_master=acting_master, details=details)
        if route is None:
            raise TopicNotExist(
                f"No topic route info in name server for the topic: {header.topic}\n"
                "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
            )
        if self._settings.flag("orderMessageEnable"):
            route.order_config = self._kv.get(ORDER_TOPIC_CONFIG, header.topic)
        zone = (request.ext or {}).get("__ZONE_NAME", "")
        if (request.ext or {}).get("__ZONE_MODE", "").lower() == "true" and zone.strip():
            keep_zone(route, zone)
        if (listener := listener_of(connection)) != DEFAULT_LISTENER:
            use_listener(self._tables, route, listener)
        write = dumps_standard if wants_standard_json(request, header.accept_standard_json_only) else dumps
        return response_to(request, body=write(route.to_json()))

    def _check_ready(self) -> None:
        """Refuse routes until waitSecondsForService has passed. RocketMQ then refuses all routes after the first."""
        wait_s = self._settings.number("waitSecondsForService")
        if self._settings.flag("needWaitForService") and self._clock.monotonic() - self._started < wait_s:
            raise RequestError(f"name server not ready: brokers get {wait_s} s after its start to register")

    @serves(RequestCode.GET_BROKER_CLUSTER_INFO, action=Action.GET)
    def _cluster_info(self, request: Command, connection: object) -> Command:
        return response_to(request, body=dumps(topics.cluster_info(self._tables, listener_of(connection))))

    @serves(RequestCode.WIPE_WRITE_PERM_OF_BROKER, action=Action.UPDATE)
    def _wipe_write_perm(self, request: Command, connection: object) -> Command:
        header = WritePermOfBrokerRequest.from_ext(request.ext, request.code)
        count = topics.wipe_write_perm(self._tables, header.broker_name)
        return response_to(request, ext=WipeWritePermOfBrokerResponse(wipe_topic_count=count).to_ext())

    @serves(RequestCode.ADD_WRITE_PERM_OF_BROKER, action=Action.UPDATE)
    def _add_write_perm(self, request: Command, connection: object) -> Command:
        header = WritePermOfBrokerRequest.from_ext(request.ext, request.code)
        count = topics.add_write_perm(self._tables, header.broker_name)
        return response_to(request, ext=AddWritePermOfBrokerResponse(add_topic_count=count).to_ext())

    @serves(RequestCode.DELETE_TOPIC_IN_NAMESRV, access=in_cluster(field="clusterName"))
    def _delete_topic(self, request: Command, connection: object) -> Command:
        header = DeleteTopicInNamesrvRequest.from_ext(request.ext)
        topics.delete_topic(self._tables, header.topic, header.cluster_name or None)
        return response_to(request)

    @serves(RequestCode.REGISTER_TOPIC_IN_NAMESRV, action=Action.UPDATE)
    def _add_topic(self, request: Command, connection: object) -> Command:
        """Add a topic; a request without a body does nothing: ali-ons sends this code with its meaning of 3.x."""
        if request.payload:
            header = RegisterTopicInNamesrvRequest.from_ext(request.ext)
            topics.add_topic(self._tables, header.topic, _queue_data(read_object(request, "topic route")))
        return response_to(request)

    # --- topic lists ------------------------------------------------------------------------------------------------

    @serves(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, action=Action.GET)
    async def _all_topics(self, request: Command, connection: object) -> Command:
        self._check_enabled("enableAllTopicList")
        return await self._topic_list(request, connection, topics.all_topics(self._tables))

    @serves(RequestCode.GET_TOPICS_BY_CLUSTER, access=in_cluster(Action.GET, "cluster"))
    async def _topics_of_cluster(self, request: Command, connection: object) -> Command:
        self._check_enabled("enableTopicList")
        header = GetTopicsByClusterRequest.from_ext(request.ext)
        return await self._topic_list(request, connection, topics.topics_of_cluster(self._tables, header.cluster))

    @serves(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, action=Action.GET)
    async def _system_topics(self, request: Command, connection: object) -> Command:
        return await self._topic_list(request, connection, *topics.system_topics(self._tables, listener_of(connection)))

    @serves(RequestCode.GET_UNIT_TOPIC_LIST, action=Action.GET)
    async def _unit_topics(self, request: Command, connection: object) -> Command:
        return await self._topics_where(request, connection, lambda data: data.is_unit)

    @serves(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, action=Action.GET)
    async def _topics_with_unit_subscription(self, request: Command, connection: object) -> Command:
        return await self._topics_where(request, connection, lambda data: data.has_unit_subscription)

    @serves(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, action=Action.GET)
    async def _other_topics_with_unit_subscription(self, request: Command, connection: object) -> Command:
        return await self._topics_where(
            request, connection, lambda data: data.has_unit_subscription and not data.is_unit
        )

    async def _topics_where(
        self, request: Command, connection: object, matches: Callable[[QueueData], bool]
    ) -> Command:
        self._check_enabled("enableTopicList")
        return await self._topic_list(request, connection, topics.topics_where(self._tables, matches))

    def _check_enabled(self, key: str) -> None:
        if not self._settings.flag(key):
            raise RequestError(f"disable: {key}=false in the name server's settings")

    async def _topic_list(
        self, request: Command, connection: object, names: list[str], broker_address: str | None = None
    ) -> Command:
        return await self._sliced(request, connection, {"brokerAddr": broker_address, "topicList": Items(names)})


def _queue_data(route: dict[str, Any]) -> list[QueueData]:
    try:
        return [
            QueueData(
                text_in(members, "brokerName"),
                number_in(members, "readQueueNums", 0, COUNT),
                number_in(members, "writeQueueNums", 0, COUNT),
                number_in(members, "perm", 0, COUNT),
                number_in(members, "topicSysFlag", 0, COUNT),
                _attributes(members),
            )
            for members in objects_in(route, "queueDatas")
        ]
    except FormatError as error:
        raise RequestError(f"the body is not a topic route: its queueDatas cannot be read: {error}") from error


def _attributes(members: dict[str, Any]) -> dict[str, str] | None:
    attributes = object_in(members, "attributes")
    return {str(key): text_in(attributes, key) for key in attributes} if attributes else None
