"""All requests that the plugin serves; imported when the first of them arrives."""

from __future__ import annotations

import json
import logging
from operator import itemgetter
from shlex import quote
from typing import Final

from gantrymq.errors import GroupNotExist, RequestRefused, TopicNotExist
from gantrymq.plugin import names
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Action, Role
from gantrymq.plugin.remoting import (
    Command,
    Connection,
    Handler,
    SlicedResponses,
    handlers_of,
    response_to,
    serves,
)
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
from gantrymq_diagnosis.service import DELETE_OFFSETS, EXPLAIN_GROUP, SHOWN_FIGURES
from gantrymq_diagnosis.settings import POLICY
from gantrymq_diagnosis.shown import as_json, queue_json
from gantrymq_diagnosis.summaries import Summaries
from gantrymq_diagnosis.watch import Watch

_QUEUES_TOGETHER: Final = 50  # queues between pauses
_MOST_SENTENCES: Final = 100  # rows of one metric

log = logging.getLogger(__name__)


class DiagnosisRequests:
    """Explains groups, shows metrics, deletes offsets, and has the other objects that serve requests."""

    def __init__(self) -> None:
        """Create handlers that refuse requests until `start`."""
        self._broker: Broker | None = None
        self._watch = Watch()
        self._modes: PopModes | None = None
        self._summaries = Summaries()
        self._of_operators: tuple[BrokerRequests, ...] = (
            SettingsRequests(),
            MaintenanceRequests(),
            ProgressRequests(),
            ResetRequests(),
            OnlineRequests(),
            MemberQuestions(),
        )

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers of all requests, by code."""
        found: dict[int, Handler] = {}
        for each in (self, self._summaries, *self._of_operators):
            found.update(handlers_of(each))
        return found

    def start(self, broker: Broker, watch: Watch) -> None:
        """Begin to answer for *broker*; *watch* knows the members of its groups."""
        self._broker, self._watch = broker, watch
        responses = SlicedResponses(broker.world.clock)
        for each in self._of_operators:
            each.start(broker, responses)
        self._modes = PopModes(broker.world, broker.root)
        self._summaries.start(broker, watch, self._modes)

    def stop(self) -> None:
        """Refuse requests."""
        self._broker = None
        for each in self._of_operators:
            each.stop()
        self._summaries.stop()

    @serves(SHOWN_FIGURES, action=Action.GET)
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

    @serves(EXPLAIN_GROUP, action=Action.GET, topic="topic", group="consumerGroup")
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

    @serves(DELETE_OFFSETS, action=Action.UPDATE, topic="topic", group="consumerGroup")
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
