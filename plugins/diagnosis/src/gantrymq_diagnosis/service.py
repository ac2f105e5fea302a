"""The service ``diagnosis``: observes heartbeats, reports each conflict once, explains groups (65021)."""

from __future__ import annotations

import json
import logging
from functools import partial
from operator import itemgetter
from shlex import quote
from typing import Final

from gantrymq.errors import GroupNotExist, NoPermission, RequestRefused, TopicNotExist
from gantrymq.plugin import names
from gantrymq.plugin.interfaces import Broker, ConnectedClient, Heartbeat, MetricFamily
from gantrymq.plugin.model import Action, Role
from gantrymq.plugin.remoting import Command, Connection, SlicedResponses, response_to, serves
from gantrymq.plugin.world import TimeSlices
from gantrymq_diagnosis.explained_settings import SettingsRequests
from gantrymq_diagnosis.gather import FIGURES_TOGETHER, gather
from gantrymq_diagnosis.members import MemberQuestions
from gantrymq_diagnosis.operators.maintenance import MaintenanceRequests
from gantrymq_diagnosis.operators.online import OnlineRequests
from gantrymq_diagnosis.operators.progress import ProgressRequests
from gantrymq_diagnosis.operators.requests import BrokerRequests, stopping
from gantrymq_diagnosis.operators.reset import ResetRequests
from gantrymq_diagnosis.pop_modes import PopModes
from gantrymq_diagnosis.settings import POLICY, REFUSE
from gantrymq_diagnosis.shown import as_json, queue_json
from gantrymq_diagnosis.summaries import Summaries
from gantrymq_diagnosis.watch import Watch

_EXPLAIN_GROUP: Final = 65021  # request codes of GantryMQ; ext: consumerGroup, and optionally topic
_SHOWN_FIGURES: Final = 65022  # metrics of plugins
_DELETE_OFFSETS: Final = 65027  # ext: consumerGroup and topic
_QUEUES_TOGETHER: Final = 50  # queues between pauses
_MOST_SENTENCES: Final = 100  # rows of one metric

log = logging.getLogger(__name__)


class DiagnosisService:
    """Watches the groups of one broker; may be started again after a stop."""

    name = "diagnosis"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        """Create a service that knows no group. `handlers`: all objects with handlers of requests."""
        self._broker: Broker | None = None
        self._watch = Watch()
        self._modes: PopModes | None = None
        self.summaries = Summaries()
        self._of_operators: tuple[BrokerRequests, ...] = (
            SettingsRequests(),
            MaintenanceRequests(),
            ProgressRequests(),
            ResetRequests(),
            OnlineRequests(),
            MemberQuestions(),
        )
        self.handlers = (self, self.summaries, *self._of_operators)

    async def start(self, broker: Broker) -> None:
        """Start observing heartbeats."""
        self._broker, self._watch = broker, Watch()
        broker.clients.on_heartbeat(self.heard)
        broker.clients.on_gone(self._watch.closed)
        broker.metrics.register(self._conflicts)
        broker.metrics.register(self._missing_topics)
        responses = SlicedResponses(broker.world.clock)
        for each in self._of_operators:
            each.start(broker, responses)
        self._modes = modes = PopModes(broker.world, broker.root)
        self.summaries.start(broker, self._watch, modes)

    async def stop(self) -> None:
        """Stop answering."""
        self._broker = None
        for each in self._of_operators:
            each.stop()
        self.summaries.stop()

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

    @serves(_SHOWN_FIGURES, action=Action.GET)
    async def shown(self, asked: Command, connection: Connection) -> Command:
        """65022: return plugins' metrics, summed over labels. Raises ServiceNotAvailable: the broker is stopping."""
        broker = self._broker
        if broker is None:
            raise stopping()
        found, slices = list[dict[str, object]](), TimeSlices(broker.world.clock, FIGURES_TOGETHER)
        for each in broker.metrics.of_plugins():
            value = sum(each.values.values())
            said = sorted(each.sentences.values())[:_MOST_SENTENCES]
            shown = {"name": each.name, "help": each.help, "counts": each.counter, "value": value, "sentences": said}
            found.append(shown)
            await slices.item_done()
        found.sort(key=itemgetter("name"))
        return response_to(asked, 0, None, None, json.dumps({"figures": found}).encode())

    @serves(_EXPLAIN_GROUP, action=Action.GET, topic="topic", group="consumerGroup")
    async def explain(self, asked: Command, connection: Connection) -> Command:
        """65021: return the state of a group, with reasons as words, values and English sentences.

        Raises:
            RequestRefused: code 1, no group is named.
            GroupNotExist, TopicNotExist: no such group or topic.
            ServiceNotAvailable: the broker is stopping.
        """
        broker, modes = self._broker, self._modes
        if broker is None or modes is None:
            raise stopping()
        group, topic = (asked.ext or {}).get("consumerGroup", ""), (asked.ext or {}).get("topic") or None
        if not group:
            raise RequestRefused(1, "EXPLAIN_GROUP (65021): consumerGroup is missing; name the group to explain")
        if broker.groups.get(group) is None and not broker.clients.consumers(group):
            raise GroupNotExist(f"there is no group {group} at this broker; see: gantrymq group list")
        if topic is not None and broker.topics.get(topic) is None:
            raise TopicNotExist(f"topic {topic} does not exist on this broker; see: gantrymq topic list")
        snapshot = await gather(broker, self._watch, modes, group, topic)
        broker_name = broker.settings.text("brokerName") or broker.world.host_name
        shown = as_json(broker_name, broker.settings.text(POLICY), snapshot)
        parts, slices = list[str](), TimeSlices(broker.world.clock, _QUEUES_TOGETHER)
        for queue in snapshot.queues:
            parts.append(json.dumps(queue_json(snapshot.group, queue)))
            await slices.item_done()
        head = json.dumps({**shown, "system": names.is_system_group(group)})
        return response_to(asked, 0, None, None, f'{head[:-1]}, "queues": [{", ".join(parts)}]}}'.encode())

    @serves(_DELETE_OFFSETS, action=Action.UPDATE, topic="topic", group="consumerGroup")
    def delete_offsets(self, asked: Command, connection: Connection) -> Command:
        """65027: delete the committed offsets of a group for one topic; return them by queue id.

        Raises:
            RequestRefused: code 1, no group or topic is named, an online member reads the topic, or this is no master.
        """
        broker = self._broker
        if broker is None:
            raise stopping()
        group, topic = ((asked.ext or {}).get(each, "") for each in ("consumerGroup", "topic"))
        if not group or not topic:
            raise RequestRefused(1, "DELETE_OFFSETS (65027): consumerGroup or topic is missing; name both")
        if broker.role.current is not Role.MASTER:
            master = broker.registration.master_address
            raise RequestRefused(1, f"this broker is a slave; delete offsets at its master, {master or 'missing now'}")
        if broker.clients.consumers(group) and broker.lags.follows(group, topic):
            raise RequestRefused(
                1,
                f"online members of group {group} read topic {topic} and would commit again; stop them, or take the "
                f"topic out of their subscriptions, and list them with: gantrymq group clients {quote(group)}",
            )
        found = broker.offsets.forget(group, topic)
        log.info("deleted the offsets of group %s on topic %s: %s", group, topic, dict(found))
        return response_to(asked, 0, None, None, json.dumps({"queues": sorted(found)}).encode())


def _present(broker: Broker, group: str) -> set[object]:
    """Return the open connections of the members of a group."""
    return {each.connection for each in broker.clients.consumers(group) if not each.connection.closed}
