"""Requests about lite topics over remoting: 200070, 200071, and 200074 to 200079.

RocketMQ's proxy 5.5.0 sends the first two for its clients, mqadmin the others. Acknowledgements are requests of
gantrymq-pop with a field liteTopic, which pass here. A proxy serves many clients over one connection, so subscriptions
outlive connections.

Source: apache/rocketmq broker/.../processor/PopLiteMessageProcessor.java, LiteSubscriptionCtlProcessor.java,
LiteManagerProcessor.java; remoting/.../protocol/body/Get*InfoResponseBody.java, common/.../LiteSubscriptionDTO.java.
"""

from __future__ import annotations

import heapq
from shlex import quote
from typing import Any, Final

from gantrymq.errors import FormatError, GantryError, IllegalOperation, InvalidParameter
from gantrymq.plugin.interfaces import (
    Broker,
    LiteAction,
    LiteRequest,
    LiteService,
    LiteSubscription,
    OffsetKind,
    OffsetOption,
    PopAnswer,
)
from gantrymq.plugin.loose_json import INT64, dumps, number_in, object_in, objects_in, text_in
from gantrymq.plugin.model import LIGHT_QUEUE_ID, Action, Principal, Queue, lite_queue, lite_topic_of
from gantrymq.plugin.remoting import (
    Command,
    Connection,
    RequestCode,
    encode_head,
    in_operation,
    object_body_of,
    response_to,
    serves,
)
from gantrymq.plugin.world import TimeSlices
from gantrymq_lite.attributes import expiration_minutes, is_lite, lite_group
from gantrymq_lite.checks import LiteChecks
from gantrymq_lite.headers import (
    LiteClientRequest,
    LiteGroupRequest,
    LiteTopicRequest,
    ParentTopicRequest,
    PopLiteRequest,
    TriggerRequest,
)
from gantrymq_lite.in_flight import InFlight
from gantrymq_lite.lite_topics import LiteTopics
from gantrymq_lite.receives import Receives
from gantrymq_lite.subscriptions import Subscriptions

_MOST_QUEUES: Final = "maxLmqConsumeQueueNum"  # of the store
_MOST_LISTED: Final = 10_000
_TOGETHER: Final = 64


class LiteRequests:
    """Handlers of these requests."""

    def __init__(
        self,
        broker: Broker,
        service: LiteService,
        checks: LiteChecks,
        subscriptions: Subscriptions,
        in_flight: InFlight,
        topics: LiteTopics,
        receives: Receives,
    ) -> None:
        self._broker = broker
        self._service = service
        self._checks = checks
        self._subscriptions = subscriptions
        self._in_flight = in_flight
        self._topics = topics
        self._receives = receives

    @serves(RequestCode.POP_LITE_MESSAGE, access=in_operation)
    def receive(self, request: Command, connection: Connection) -> None:
        """Answer request 200070: messages, or none when the time is up."""
        header = PopLiteRequest.from_ext(request.ext)
        wanted = LiteRequest(
            header.consumer_group,
            header.topic,
            header.client_id,
            header.max_msg_num,
            header.invisible_time,
            header.poll_time,
            header.born_time,
            header.attempt_id,
            connection.principal,
        )

        def respond(answer: PopAnswer | GantryError) -> None:
            if connection.closed or request.is_oneway:
                return
            if isinstance(answer, GantryError):
                connection.reply(request, response_to(request, answer.response_code, str(answer)))
                return
            counts = (str(batch.deliveries.get(each, 0)) for batch in answer.batches for each in batch.offsets)
            ext = {
                "popTime": str(answer.pop_ms),
                "invisibleTime": str(answer.invisible_ms),
                "reviveQid": str(answer.revive_queue),
                "orderCountInfo": ";".join(counts),
            }
            response = response_to(request, answer.code, answer.remark, ext)
            if answer.buffers:
                connection.reply_parts([encode_head(response, sum(map(len, answer.buffers))), *answer.buffers])
            else:
                connection.reply(request, response)

        self._receives.serve(wanted, connection, respond)

    @serves(RequestCode.LITE_SUBSCRIPTION_CTL, access=in_operation)
    async def subscribe(self, request: Command, connection: Connection) -> Command:
        """Answer request 200071: change the subscriptions of clients."""
        principal = connection.principal
        changes = objects_in(object_body_of(request), "subscriptionSet") if request.body else []
        if not changes:
            raise IllegalOperation("LITE_SUBSCRIPTION_CTL: the list subscriptionSet is empty; name one change or more")
        for each in changes:
            await self._service.subscribe(_change(each, principal), connection)
        return response_to(request)

    @serves(RequestCode.GET_BROKER_LITE_INFO, action=Action.GET)
    def broker_info(self, request: Command, connection: Connection) -> Command:
        """Answer request 200074: the lite topics of the broker in numbers."""
        broker = self._broker
        settings, queues = broker.settings, broker.store.queues()
        groups: dict[str, list[str]] = {}
        for name, group in broker.groups.view.items():
            if (bound := lite_group(group)) is not None:
                groups.setdefault(bound.topic, []).append(name)
        return _answer(
            request,
            {
                "cqTableSize": len({each.topic for each in queues}),
                "currentLmqNum": sum(self._topics.counts().values()),
                "eventMapSize": sum(bool(each.marks) for each in self._subscriptions.all()),
                "groupMeta": {topic: sorted(names) for topic, names in groups.items()},
                "liteSubscriptionCount": self._subscriptions.count,
                "maxLmqNum": settings.number(_MOST_QUEUES) if _MOST_QUEUES in settings.schema else 0,
                "offsetTableSize": sum(1 for _ in broker.metrics.committed()),
                "orderInfoCount": len(self._in_flight),
                "storeType": "default",
                "topicMeta": {
                    name: expiration_minutes(topic) for name, topic in broker.topics.view.items() if is_lite(topic)
                },
            },
        )

    @serves(RequestCode.GET_PARENT_TOPIC_INFO, action=Action.GET, topic="topic")
    def parent_info(self, request: Command, connection: Connection) -> Command:
        """Answer request 200075: a parent topic, its lite topics and its groups in numbers."""
        name = ParentTopicRequest.from_ext(request.ext).topic
        self._checks.topic(name)
        groups = (each for each, group in self._broker.groups.view.items() if (lite_group(group) or ("",))[0] == name)
        return _answer(
            request,
            {
                "groups": sorted(groups),
                "liteTopicCount": len(self._topics.of(name)),
                "lmqNum": sum(self._topics.counts().values()),
                "topic": name,
                "ttl": expiration_minutes(self._broker.topics.view[name]),
            },
        )

    @serves(RequestCode.GET_LITE_TOPIC_INFO, action=Action.GET, topic="parentTopic")
    async def topic_info(self, request: Command, connection: Connection) -> Command:
        """Answer request 200076: a lite topic and its subscribers."""
        header = LiteTopicRequest.from_ext(request.ext)
        self._checks.topic(header.parent_topic)
        queue = Queue(lite_queue(header.parent_topic, header.lite_topic), LIGHT_QUEUE_ID)
        bounds = self._broker.store.bounds(queue)
        consumers = (each for group in self._subscriptions.of_queue(queue.topic) for each in group)
        return _answer(
            request,
            {
                "liteTopic": header.lite_topic,
                "parentTopic": header.parent_topic,
                "shardingToBroker": True,
                "subscriber": [{"clientId": each.client_id, "group": each.group} for each in consumers],
                "topicOffset": {
                    "lastUpdateTimestamp": await self._time(queue, bounds.max_offset - 1),
                    "maxOffset": bounds.max_offset,
                    "minOffset": bounds.min_offset,
                },
            },
        )

    @serves(RequestCode.GET_LITE_CLIENT_INFO, action=Action.GET, topic="parentTopic", group="group")
    def client_info(self, request: Command, connection: Connection) -> Command:
        """Answer request 200077: the lite topics of a client."""
        header = LiteClientRequest.from_ext(request.ext)
        self._checks.topic(header.parent_topic)
        bound = self._checks.group(header.group, header.parent_topic)
        if bound is None or bound.topic != header.parent_topic:
            raise InvalidParameter(f"group {header.group} is not bound to topic {header.parent_topic}")
        consumer = self._subscriptions.get(header.group, header.client_id)
        answer = {"clientId": header.client_id, "group": header.group, "parentTopic": header.parent_topic}
        if consumer is None:
            return _answer(request, {**answer, "lastAccessTime": -1, "lastConsumeTime": 0, "liteTopicCount": -1})
        most = max(0, min(header.max_count, _MOST_LISTED))
        seen = {
            "lastAccessTime": consumer.heard_ms,
            "lastConsumeTime": consumer.got_ms,
            "liteTopicCount": len(consumer.queues),
            "liteTopicSet": list(consumer.queues)[:most],
        }
        return _answer(request, {**answer, **seen})

    @serves(RequestCode.GET_LITE_GROUP_INFO, action=Action.GET, group="group")
    async def group_info(self, request: Command, connection: Connection) -> Command:
        """Answer request 200078: what a group has not consumed, of one lite topic or of the *topK* with most."""
        header = LiteGroupRequest.from_ext(request.ext)
        parent = self._bound_topic(header.group)
        answer: dict[str, Any] = {"group": header.group, "parentTopic": parent}
        if header.lite_topic:
            queue = Queue(lite_queue(parent, header.lite_topic), LIGHT_QUEUE_ID)
            end, committed = self._broker.store.bounds(queue).max_offset, self._committed(header.group, queue)
            answer |= {"liteTopic": header.lite_topic, "totalLagCount": end - committed if end else -1}
            answer["earliestUnconsumedTimestamp"] = await self._time(queue, committed) if committed < end else -1
            if end:
                answer["liteTopicOffsetWrapper"] = {
                    "brokerOffset": end,
                    "consumerOffset": committed,
                    "lastTimestamp": await self._time(queue, committed - 1),
                    "pullOffset": 0,
                }
            return _answer(request, answer)
        slices = TimeSlices(self._broker.world.clock, _TOGETHER)
        lags: list[tuple[int, str]] = []
        for light_queue in self._topics.of(parent):
            queue = Queue(light_queue, LIGHT_QUEUE_ID)
            lag = self._broker.store.bounds(queue).max_offset - self._committed(header.group, queue)
            if lag > 0:
                lags.append((lag, light_queue))
            await slices.item_done()
        most: list[dict[str, Any]] = []
        for lag, light_queue in heapq.nlargest(max(0, min(header.top_k, _MOST_LISTED)), lags):
            queue = Queue(light_queue, LIGHT_QUEUE_ID)
            since_ms = await self._time(queue, self._committed(header.group, queue))
            name = (lite_topic_of(light_queue) or ("", light_queue))[1]
            most.append({"earliestUnconsumedTimestamp": since_ms, "lagCount": lag, "liteTopic": name})
        by_time = sorted(most, key=lambda each: each["earliestUnconsumedTimestamp"])
        answer |= {
            "earliestUnconsumedTimestamp": by_time[0]["earliestUnconsumedTimestamp"] if by_time else -1,
            "lagCountTopK": most,
            "lagTimestampTopK": by_time,
            "totalLagCount": sum(lag for lag, _ in lags),
        }
        return _answer(request, answer)

    @serves(RequestCode.TRIGGER_LITE_DISPATCH, action=Action.UPDATE, group="group")
    async def trigger(self, request: Command, connection: Connection) -> Command:
        """Answer request 200079: look for messages of all subscriptions of a client or a group."""
        header = TriggerRequest.from_ext(request.ext)
        self._bound_topic(header.group)
        slices = TimeSlices(self._broker.world.clock, _TOGETHER)
        for consumer in list(self._subscriptions.all()):
            if consumer.group == header.group and header.client_id in ("", consumer.client_id):
                for light_queue in list(consumer.queues):
                    self._receives.mark_if_free((light_queue, header.group))
                    await slices.item_done()
        return response_to(request)

    def _bound_topic(self, group: str) -> str:
        bound = self._checks.group(group)
        if bound is None:
            raise InvalidParameter(
                f"group {group} consumes no lite topics; bind it with: gantrymq group create -g {quote(group)} -a "
                "+lite.bind.topic=TOPIC"
            )
        return bound.topic

    def _committed(self, group: str, queue: Queue) -> int:
        return max(self._broker.offsets.committed(group, queue) or 0, self._broker.store.bounds(queue).min_offset)

    async def _time(self, queue: Queue, queue_offset: int) -> int:
        """Return the store time of a message; 0 if there is none."""
        return max(await self._broker.messages.store_time(queue, queue_offset), 0) if queue_offset >= 0 else 0


def _answer(request: Command, body: dict[str, Any]) -> Command:
    answer = response_to(request)
    answer.body = dumps(body)
    return answer


def _change(members: dict[str, Any], principal: Principal | None) -> LiteSubscription:
    """Parse one member of subscriptionSet. Raises InvalidParameter."""
    try:
        listed = members.get("liteTopicSet") or []
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise FormatError("liteTopicSet is not a list of names")
        option = object_in(members, "offsetOption")
        offset = None
        if option:
            offset = OffsetOption(OffsetKind(text_in(option, "type")), number_in(option, "value", 0, INT64))
        names = [text_in(members, name, "") for name in ("clientId", "group", "topic")]
        if not all(map(str.strip, names)):
            raise FormatError("clientId, group or topic is missing")
        action = LiteAction[text_in(members, "action")]
        return LiteSubscription(
            action, names[0], names[1], names[2], listed, offset, number_in(members, "version", 0, INT64), principal
        )
    except (FormatError, KeyError, ValueError) as error:
        raise InvalidParameter(
            f"LITE_SUBSCRIPTION_CTL: a change cannot be read: {error}; write it as RocketMQ's proxy does "
            "(LiteSubscriptionDTO)"
        ) from error
