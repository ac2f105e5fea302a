"""Metrics of the protocol, and its part of ``/healthz``; registered when a broker has a gRPC listener.

RocketMQ's proxy has no metrics of requests by code, connections or renewals, so the names are GantryMQ's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from gantrymq.plugin.interfaces import MetricFamily
from gantrymq.plugin.remoting import LanguageCode
from gantrymq_grpc.service.clients import GrpcClients
from gantrymq_grpc.service.messaging import MessagingService
from gantrymq_grpc.service.renewing import Renewing
from gantrymq_grpc.transport.connection import Connection
from gantrymq_grpc.transport.server import GrpcServer

_LANGUAGES: Final = frozenset(each.name for each in LanguageCode)  # clients write any text; series must be few
_OTHER: Final = LanguageCode.OTHER.name

_Values = dict[tuple[str, ...], float]


class GrpcMetrics:
    """The metrics of one broker."""

    def __init__(
        self,
        listeners: Mapping[str, str],
        server: GrpcServer,
        service: MessagingService,
        clients: GrpcClients,
        renewing: Renewing,
    ) -> None:
        """*listeners*: advertised addresses by name."""
        self._listeners = listeners
        self._server = server
        self._service = service
        self._clients = clients
        self._renewing = renewing

    @property
    def families(self) -> tuple[Callable[[], MetricFamily], ...]:
        """The functions that read each metric."""
        return (
            self._requests,
            self._errors,
            self._connections,
            self._calls,
            self._crowded,
            self._by_language,
            self._pops_kept,
            self._renewals_failed,
        )

    def _requests(self) -> MetricFamily:
        values: _Values = {(method, code.name): count for (method, code), count in self._service.served.items()}
        text = "Requests of gRPC clients, by the code of the answer; of telemetry streams those that have ended."
        return MetricFamily("gantrymq_grpc_requests_total", text, ("request", "code"), values, counter=True)

    def _errors(self) -> MetricFamily:
        values: _Values = {(status.name,): count for status, count in self._server.errors.items()}
        text = "Calls of gRPC clients that ended with an error of gRPC itself, such as UNIMPLEMENTED."
        return MetricFamily("gantrymq_grpc_errors_total", text, ("status",), values, counter=True)

    def _connections(self) -> MetricFamily:
        found = self._by_listener(lambda connection: 1)
        languages = self._languages()
        health = {
            "grpc": {
                "listeners": dict(self._listeners),
                "connections": sum(found.values()),
                "clients": dict(sorted(languages.items())),
            }
        }
        text = "Open connections of gRPC clients."
        return MetricFamily("gantrymq_grpc_connections", text, ("listener",), found, health=health)

    def _calls(self) -> MetricFamily:
        found = self._by_listener(lambda connection: connection.call_count)
        text = "Calls of gRPC clients in progress, held receives and telemetry streams among them."
        most = self._server.limits.max_streams
        busiest: dict[str, Connection] = {}
        for each in self._server.connections:
            known = busiest.get(each.listener)
            if each.is_crowded and (known is None or each.call_count > known.call_count):
                busiest[each.listener] = each
        sentences: dict[tuple[str, ...], str] = {
            (listener,): f"the gRPC client {each.address} has {each.call_count} calls in progress on one connection, "
            f"the limit is {most} (grpcMaxConcurrentCallsPerConnection); further ones, such as acknowledgements, wait "
            "at the client: use fewer consumers per connection, or raise the limit"
            for listener, each in busiest.items()
        }
        return MetricFamily("gantrymq_grpc_calls", text, ("listener",), found, sentences=sentences)

    def _crowded(self) -> MetricFamily:
        text = "Connections of gRPC clients with at least 80 % of the calls that one may have in progress."
        found = self._by_listener(lambda connection: connection.is_crowded)
        return MetricFamily("gantrymq_grpc_connections_crowded", text, ("listener",), found)

    def _by_language(self) -> MetricFamily:
        values: _Values = {(language,): count for language, count in self._languages().items()}
        text = "Clients of the gRPC protocol, by the language of their SDK."
        return MetricFamily("gantrymq_grpc_clients", text, ("language",), values)

    def _pops_kept(self) -> MetricFamily:
        text = "Receives of gRPC push consumers whose messages are renewed until they are acknowledged."
        return MetricFamily("gantrymq_grpc_pops_kept", text, (), {(): len(self._renewing)})

    def _renewals_failed(self) -> MetricFamily:
        text = "Receives of gRPC push consumers that are no longer renewed because it failed three times."
        values: _Values = {(): self._renewing.failures}
        return MetricFamily("gantrymq_grpc_renewals_failed_total", text, (), values, counter=True)

    def _by_listener(self, count: Callable[[Connection], int]) -> _Values:
        found: _Values = {(name,): 0 for name in self._listeners}
        for each in self._server.connections:
            found[(each.listener,)] = found.get((each.listener,), 0) + count(each)
        return found

    def _languages(self) -> Counter[str]:
        found = (each.heartbeat.language for each in self._clients)
        return Counter(language if language in _LANGUAGES else _OTHER for language in found)
