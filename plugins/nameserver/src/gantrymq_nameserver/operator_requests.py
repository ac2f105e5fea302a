"""Requests of operators: key-value configuration, and the name server's own settings.

Source: apache/rocketmq namesrv/.../processor/DefaultRequestProcessor.java (putKVConfig .. getKVListByNamespace,
updateConfig, getConfig).
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.errors import NoPermission, QueryNotFound
from gantrymq.plugin.headers import (
    GetKvConfigResponse,
    GetKvlistByNamespaceRequest,
    KvConfigRequest,
    PutKvConfigRequest,
)
from gantrymq.plugin.loose_json import Entries
from gantrymq.plugin.model import Action
from gantrymq.plugin.remoting import (
    Command,
    RequestCode,
    SlicedResponses,
    properties_of,
    request_name,
    response_to,
    serves,
)
from gantrymq.plugin.settings import Settings, properties_text, runtime_changes
from gantrymq.plugin.world import World
from gantrymq_nameserver.kv import KvConfig

log = logging.getLogger(__name__)

ALWAYS_BLACK_LISTED: Final = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
_TLS_PREFIX: Final = "tls."  # black-listed as well, including undeclared keys


class OperatorRequests:
    """Handlers of operators' requests."""

    def __init__(self, world: World, kv: KvConfig, settings: Settings) -> None:
        self._world = world
        self._sliced = SlicedResponses(world.clock).make
        self._kv = kv
        self._settings = settings

    @serves(RequestCode.PUT_KV_CONFIG, action=Action.UPDATE)
    async def _put(self, request: Command, connection: object) -> Command:
        header = PutKvConfigRequest.from_ext(request.ext)
        await self._kv.put(header.namespace, header.key, header.value)
        return response_to(request)

    @serves(RequestCode.GET_KV_CONFIG, action=Action.GET)
    def _get(self, request: Command, connection: object) -> Command:
        header = KvConfigRequest.from_ext(request.ext, request.code)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            raise QueryNotFound(f"No config item, Namespace: {header.namespace} Key: {header.key}")
        return response_to(request, ext=GetKvConfigResponse(value=value).to_ext())

    @serves(RequestCode.DELETE_KV_CONFIG, action=Action.UPDATE)
    async def _delete(self, request: Command, connection: object) -> Command:
        header = KvConfigRequest.from_ext(request.ext, request.code)
        await self._kv.delete(header.namespace, header.key)
        return response_to(request)

    @serves(RequestCode.GET_KVLIST_BY_NAMESPACE, action=Action.GET)
    async def _namespace(self, request: Command, connection: object) -> Command:
        header = GetKvlistByNamespaceRequest.from_ext(request.ext)
        table = self._kv.namespace(header.namespace)
        if table is None:
            raise QueryNotFound(f"No config item, Namespace: {header.namespace}")
        return await self._sliced(request, connection, {"table": Entries(table.items())})

    @serves(RequestCode.UPDATE_NAMESRV_CONFIG, action=Action.UPDATE)
    def _update_settings(self, request: Command, connection: object) -> Command:
        """318: change runtime settings until the server stops; all are checked before the first is changed.

        A Java name server writes them to its settings file as well.
        """
        where, settings, given = request_name(request.code), self._settings, properties_of(request)
        black = ALWAYS_BLACK_LISTED.union(settings.text("configBlackList").split(";"))
        black |= {key for key, setting in settings.schema.items() if setting.local}
        if refused := sorted(key for key in given if key in black or key.startswith(_TLS_PREFIX)):
            raise NoPermission(f"Can not update config in black list: {', '.join(refused)}")
        used = runtime_changes(settings, given, where, "name server", "namesrv.conf")
        if unused := ", ".join(sorted(given.keys() - used.keys())):
            log.warning("%s: %s of RocketMQ have no effect here", where, unused)
        for key, value in used.items():
            settings.set(key, value, where)
            log.info("%s set %s=%s until it stops; to keep it, put it in namesrv.conf", where, key, value)
        return response_to(request)

    @serves(RequestCode.GET_NAMESRV_CONFIG, action=Action.GET)
    def _show_settings(self, request: Command, connection: object) -> Command:
        return response_to(request, body=properties_text(self._settings.shown()).encode())
