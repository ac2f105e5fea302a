"""The broker's settings: 25 (update), 26 (get).

Changes are lost when the broker stops; permanent ones must also be made in broker.conf (a Java broker does so itself).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (updateBrokerConfig, getBrokerConfig),
common/.../Configuration.java.
"""

from __future__ import annotations

import logging
import math

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import ok
from gantrymq.config import Value
from gantrymq.errors import NoPermission
from gantrymq.loose_json import dumps
from gantrymq.model.access import Action
from gantrymq.model.data_version import DataVersion
from gantrymq.remoting.bodies import properties_of
from gantrymq.remoting.codes import RequestCode, request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.serving import serves
from gantrymq.settings_file import properties_text
from gantrymq.settings_load import runtime_changes

log = logging.getLogger(__name__)

ALWAYS_BLACK_LISTED = frozenset({"configBlackList", "brokerConfigPath", "rocketmqHome"})


class ConfigRequests:
    """Handlers for the settings."""

    def __init__(self, parts: Parts) -> None:
        self._identity = parts.identity
        self._settings = parts.settings
        self._world = parts.world
        self._clock = parts.world.clock
        self._permission_changed = parts.permission_changed
        self._version = DataVersion(timestamp=parts.world.clock.now_ms())

    @serves(RequestCode.UPDATE_BROKER_CONFIG, action=Action.UPDATE)
    def update(self, asked: Command, connection: Connection) -> Command:
        """25: change runtime settings; all are checked before the first is changed.

        RocketMQ keys without effect here are accepted, like by a Java broker, and logged.
        """
        where = request_name(asked.code)
        given = properties_of(asked)
        black = ALWAYS_BLACK_LISTED.union(self._settings.text("configBlackList").split(";"))
        refused = sorted(black & given.keys())
        if refused:
            raise NoPermission(f"Can not update config in black list: {', '.join(refused)}")
        used = runtime_changes(self._settings, given, where, "broker", "broker.conf")
        if unused := ", ".join(sorted(given.keys() - used.keys())):
            log.warning("%s of %s: %s of RocketMQ have no effect here", where, connection.address, unused)
        for key, value in used.items():
            self._settings.set(key, value, f"{where} of {connection.address}")
            log.warning("%s set %s=%s until this broker stops; to keep it, put it in broker.conf", where, key, value)
        if used:
            self._version.next(self._clock.now_ms())
        if "brokerPermission" in used:
            self._permission_changed()
        return ok(asked)

    @serves(RequestCode.GET_BROKER_CONFIG, action=Action.GET)
    def show(self, asked: Command, connection: Connection) -> Command:
        """26: return the settings as properties, without those of TLS. Empty ones show their effective value."""
        identity = self._identity
        secure = self._settings.text("tls.enable") or str(self._settings.text("tls.server.mode") == "enforcing").lower()
        values: dict[str, Value] = {
            **self._settings.shown(),
            "clientCallbackExecutorThreads": math.ceil(self._world.processors()),  # exportMetrics's cpuNum
            "useTLS": secure,
            "brokerIP1": identity.host,
            "brokerName": identity.broker_name,
            "listenPort": identity.listen_port,
        }
        text = properties_text(dict(sorted(values.items())))
        return ok(asked, {"version": dumps(self._version.to_json()).decode()}, text.encode())
