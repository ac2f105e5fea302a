"""The service ``diagnosis``: observes heartbeats, reports each conflict once, explains groups (65021)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from gantrymq.errors import NoPermission
from gantrymq.plugin.interfaces import Broker, ConnectedClient, Heartbeat, MetricFamily
from gantrymq.plugin.model import Role
from gantrymq.plugin.remoting import Handler, RequestCode, lazy_handlers
from gantrymq_diagnosis.settings import POLICY, REFUSE
from gantrymq_diagnosis.watch import Watch

if TYPE_CHECKING:
    from gantrymq_diagnosis.requests import DiagnosisRequests

EXPLAIN_GROUP: Final = 65021  # request codes of GantryMQ; ext: consumerGroup, and optionally topic
SHOWN_FIGURES: Final = 65022  # metrics of plugins
GROUP_SUMMARIES: Final = 65023
CONNECTION_SUMMARIES: Final = 65024
TOPIC_SUMMARIES: Final = 65025
EXPLAINED_SETTINGS: Final = 65026
DELETE_OFFSETS: Final = 65027  # ext: consumerGroup and topic
REQUESTS: Final = (
    EXPLAIN_GROUP,
    SHOWN_FIGURES,
    GROUP_SUMMARIES,
    CONNECTION_SUMMARIES,
    TOPIC_SUMMARIES,
    EXPLAINED_SETTINGS,
    DELETE_OFFSETS,
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.QUERY_CORRECTION_OFFSET,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.GET_ALL_PRODUCER_INFO,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.QUERY_TOPICS_BY_CONSUMER,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO,
)
"""Codes of all requests that the plugin serves."""


log = logging.getLogger(__name__)


class DiagnosisService:
    """Watches the groups of one broker; may be started again after a stop."""

    name = "diagnosis"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        """Create a service that knows no group."""
        self._broker: Broker | None = None
        self._watch = Watch()
        self._requests: DiagnosisRequests | None = None
        self.handlers = lazy_handlers(REQUESTS, self._load_requests)

    async def start(self, broker: Broker) -> None:
        """Start observing heartbeats."""
        self._broker, self._watch = broker, Watch()
        broker.clients.on_heartbeat(self.heard)
        broker.clients.on_gone(self._watch.closed)
        broker.metrics.register(self._conflicts)
        broker.metrics.register(self._missing_topics)
        if self._requests is not None:
            self._requests.start(broker, self._watch)

    async def stop(self) -> None:
        """Stop answering."""
        self._broker = None
        if self._requests is not None:
            self._requests.stop()

    def _load_requests(self) -> dict[int, Handler]:
        from gantrymq_diagnosis.requests import DiagnosisRequests

        self._requests = requests = DiagnosisRequests()
        if self._broker is not None:
            requests.start(self._broker, self._watch)
        return requests.handlers()

    def heard(self, heartbeat: Heartbeat, connection: ConnectedClient) -> None:
        """Process a client's heartbeat; nothing happens if it repeats the last one.

        Raises:
            NoPermission: it conflicts with members of a group, and consumerConflictPolicy is ``refuse``.
        """
        broker, watch = self._broker, self._watch
        if broker is None or connection.closed:
            return
        now_s = broker.world.clock.monotonic()
        joining = []
        for heard in heartbeat.consumers:
            group = heard.group
            says = watch.statement(connection, heartbeat.client_id, connection.address, heard, connection.protocol)
            if watch.heard(connection, group, says, now_s):
                continue
            found = watch.check(connection, group, says, partial(_present, broker, group), now_s)
            refuse = bool(found) and broker.settings.text(POLICY) == REFUSE
            for conflict in watch.news(group, found, now_s):
                log.warning("%s%s", conflict.reason.sentence, "; it was not let in" if refuse else "")
            if refuse:
                raise NoPermission(f"{found[0].reason.sentence} (consumerConflictPolicy=refuse)")
            joining.append((group, says))
        for group, says in joining:
            watch.join(connection, group, says, now_s)

    def _conflicts(self) -> MetricFamily:
        """Return the number of conflicts of each group that has any."""
        values: dict[tuple[str, ...], float] = {}
        broker = self._broker
        for group in self._watch.disputed() if broker is not None else ():
            assert broker is not None
            standing = self._watch.conflicts(group, [each.connection for each in broker.clients.consumers(group)])
            if standing:
                values[(group,)] = len(standing)
            else:
                self._watch.settled(group)
        text = "Conflicts between members of the group; gantrymq group explain names them."
        return MetricFamily("gantrymq_group_conflicts", text, ("group",), values)

    def _missing_topics(self) -> MetricFamily:
        """Return the number of subscribed topics that this broker does not have, of each group with any."""
        topics = {} if self._broker is None else self._broker.topics.view
        values: dict[tuple[str, ...], float] = {}
        for group, wanted in self._watch.wanted():
            if count := sum(topic not in topics for topic in wanted):
                values[(group,)] = count
        text = "Topics that the group subscribes to and this broker does not have; gantrymq group explain names them."
        return MetricFamily("gantrymq_group_missing_topics", text, ("group",), values)


def _present(broker: Broker, group: str) -> set[object]:
    """Return the open connections of the members of a group."""
    return {each.connection for each in broker.clients.consumers(group) if not each.connection.closed}
