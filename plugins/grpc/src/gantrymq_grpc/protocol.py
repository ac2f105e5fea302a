"""The protocol ``grpc`` of a broker's listeners: puts transport and service together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gantrymq.plugin.interfaces import AcceptedConnection, Broker, PopService
from gantrymq_grpc.conversion.settings import Defaults
from gantrymq_grpc.conversion.validation import Limits as MessageLimits
from gantrymq_grpc.definitions import METHODS, SERVICE
from gantrymq_grpc.mastership import Mastership
from gantrymq_grpc.metrics import GrpcMetrics
from gantrymq_grpc.service.access import RequestAccess
from gantrymq_grpc.service.acks import HandleRequests
from gantrymq_grpc.service.clients import GrpcClients
from gantrymq_grpc.service.deliveries import Deliveries
from gantrymq_grpc.service.lite import Lite
from gantrymq_grpc.service.messaging import MessagingService
from gantrymq_grpc.service.others import OtherBrokers
from gantrymq_grpc.service.receives import Receives
from gantrymq_grpc.service.renewing import Renewing
from gantrymq_grpc.service.routes import RouteRequests
from gantrymq_grpc.service.sends import SendRequests
from gantrymq_grpc.service.telemetry import ClientRequests
from gantrymq_grpc.settings import receive_limits, transport_limits
from gantrymq_grpc.transport.server import GrpcServer

ROLE_CHANGED = "the role of this broker has changed; ask for routes again"


class GrpcProtocol:
    """Serves gRPC clients (`gantrymq.interfaces.ListenerProtocol`)."""

    def __init__(self, mastership: Mastership) -> None:
        """*mastership*: whether the broker is a master, which ends streams when it changes."""
        self._mastership = mastership
        self._server: GrpcServer | None = None

    async def start(self, broker: Broker, listeners: Mapping[str, str]) -> None:
        """Create the service on the operations of *broker*."""
        clock = broker.world.clock
        pop: PopService = broker.service("pop")
        access = RequestAccess(broker.access)
        lite = Lite(broker)
        deliveries = Deliveries(pop, lite)
        self._renewing = renewing = Renewing(broker, deliveries, self._mastership)
        self._clients = clients = GrpcClients(broker, lite, renewing.client_gone)
        others = OtherBrokers(broker.registration.broker_name)
        sends = SendRequests(broker, lite, lambda: MessageLimits.of(broker.settings))
        handles = HandleRequests(broker, deliveries, others)
        told = ClientRequests(broker, clients, access, lite, lambda: Defaults.of(broker.settings))
        routes = RouteRequests(broker, listeners, self._mastership, others, told.asked_for_route)
        receives = Receives(
            broker, deliveries, clients, renewing, others, routes.learn, receive_limits(broker.settings)
        )
        self.service = MessagingService(
            clock,
            access,
            {
                "QueryRoute": routes.route,
                "QueryAssignment": routes.assignment,
                "SendMessage": sends.send,
                "RecallMessage": sends.recall,
                "EndTransaction": sends.end_transaction,
                "AckMessage": handles.ack,
                "ChangeInvisibleDuration": handles.change,
                "ForwardMessageToDeadLetterQueue": handles.forward_to_dead_letters,
                "Heartbeat": told.heartbeat,
                "NotifyClientTermination": told.terminate,
                "SyncLiteSubscription": told.sync_lite,
            },
            receives.receive,
            told.telemetry,
        )
        self._server = server = GrpcServer(broker.world, transport_limits(broker.settings))
        server.add_service(SERVICE, {name: method.request for name, method in METHODS.items()}, self.service.handlers)
        for read in GrpcMetrics(listeners, server, self.service, clients, renewing).families:
            broker.metrics.register(read)
        clients.start()
        renewing.start(clients)
        self._mastership.on_change(lambda: server.end_streams(ROLE_CHANGED))

    def accept(self, connection: AcceptedConnection) -> asyncio.Protocol:
        """Return the object that serves *connection*."""
        assert self._server is not None, "called between start and stop only"
        return self._server.accept(connection)

    async def stop(self) -> None:
        """Finish the calls in progress, close the connections, and give back what clients have not processed."""
        if self._server is None:
            return
        await self._server.stop()
        await self._renewing.stop()
        self._clients.close()
