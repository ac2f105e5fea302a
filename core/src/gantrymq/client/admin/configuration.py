"""Settings of running servers, and the key-value table of name servers.

Sources: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getBrokerConfig, updateBrokerConfig),
namesrv/.../processor/DefaultRequestProcessor.java, tools/.../admin/DefaultMQAdminExtImpl.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.client.admin.errors import parsing
from gantrymq.client.admin.requests import AdminRequests, members_of
from gantrymq.client.argument_types import check_mapping
from gantrymq.client.calls.rpc import reply_header
from gantrymq.errors import BrokerRefused, InvalidParameter
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.nameserver import (
    GetKvConfigResponse,
    GetKvlistByNamespaceRequest,
    KvConfigRequest,
    PutKvConfigRequest,
)
from gantrymq.settings_file import parse_properties

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Namespace of the order configuration of topics: topic name to ``broker-a:4;broker-b:8``, queues by broker."""


class ConfigurationCalls(AdminRequests):
    """Part of `Admin`. Unless stated otherwise, calls raise BrokerRefused with the server's code, or ConnectFailed,
    ConnectionLost or CallTimeout without a response.
    """

    async def broker_settings(self, address: str) -> dict[str, str]:
        """Return all settings of one broker as text, sorted by key."""
        return await self._settings(address, RequestCode.GET_BROKER_CONFIG)

    async def change_broker_settings(self, address: str, settings: Mapping[str, str]) -> None:
        """Change settings of a running broker; Java brokers write changes to their file.

        Raises:
            InvalidParameter: a key or value contains a line break.
            BrokerRefused: code 16 for a blacklisted key; code 1 if the setting cannot change at runtime or the value is
                invalid.
        """
        await self.request(address, RequestCode.UPDATE_BROKER_CONFIG, body=properties_body(settings))

    async def name_server_settings(self, server: str | None = None) -> dict[str, str]:
        """Return all settings of *server*, or of the first configured name server, as text, sorted by key."""
        return await self._settings(server or self.name_servers[0], RequestCode.GET_NAMESRV_CONFIG)

    async def change_name_server_settings(
        self, settings: Mapping[str, str], server: str | None = None
    ) -> tuple[str, ...]:
        """Change settings of *server*, or of all configured name servers; return their addresses.

        Raises:
            as `change_broker_settings`; servers earlier in the list are already changed.
        """
        servers, body = (server,) if server else self.name_servers, properties_body(settings)
        for each in servers:
            await self.request(each, RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
        return servers

    async def kv_values(self, namespace: str) -> dict[str, str]:
        """Return all keys of a namespace with their values, sorted; empty for an unused namespace."""
        try:
            reply = await self._request_name_server(
                RequestCode.GET_KVLIST_BY_NAMESPACE, GetKvlistByNamespaceRequest(namespace=namespace)
            )
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        table = members_of(reply, "the values of a name server").get("table") or {}
        with parsing("the values of a name server"):
            return {str(key): str(value) for key, value in sorted(table.items())}

    async def kv_value(self, namespace: str, key: str) -> str | None:
        """Return one value, or None if it is not set."""
        try:
            reply = await self._request_name_server(
                RequestCode.GET_KV_CONFIG, KvConfigRequest(namespace=namespace, key=key)
            )
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return reply_header(GetKvConfigResponse, reply, "a name server").value

    async def put_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value at every configured name server; after an error, servers earlier in the list have the value."""
        header = PutKvConfigRequest(namespace=namespace, key=key, value=value)
        for server in self.name_servers:
            await self.request(server, RequestCode.PUT_KV_CONFIG, header)

    async def delete_kv_value(self, namespace: str, key: str) -> None:
        """Remove a value at every configured name server; a missing value is not an error."""
        for server in self.name_servers:
            await self.request(server, RequestCode.DELETE_KV_CONFIG, KvConfigRequest(namespace=namespace, key=key))

    async def _settings(self, address: str, code: RequestCode) -> dict[str, str]:
        reply = await self.request(address, code)
        with parsing(f"the settings of {address}"):
            lines = parse_properties(bytes(reply.payload).decode(errors="replace"), f"the settings of {address}")
        return dict(sorted((line.key, line.value) for line in lines))


def properties_body(settings: Mapping[str, str]) -> bytes:
    """Return *settings* as the body of a request. Raises InvalidParameter: a key or value contains a line break."""
    check_mapping("settings", settings)
    for key, value in settings.items():
        if "\n" in key + value or "\r" in key + value:
            raise InvalidParameter(f"setting {key} contains a line break")
    return "".join(f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items()).encode()
