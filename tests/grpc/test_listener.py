"""A broker's listener for gRPC, on sockets, with gRPC's own library as the client."""

import ssl

import pytest

pytest.importorskip("grpc.aio", reason="grpcio is not installed")
pytest.importorskip("gantrymq_storage_memory")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_pop")
pytest.importorskip("cryptography")

import grpc

from gantrymq.model.hosts import parse_address
from gantrymq_grpc.definitions import SERVICE, Code, QueryRouteRequest, QueryRouteResponse, Resource
from gantrymq_grpc.transport.health import SERVING, HealthCheckRequest, HealthCheckResponse

TLS = {"listeners": "sdk=grpc://127.0.0.1:0,tls=grpc+tls://127.0.0.1:0", "tls.test.mode.enable": "true"}


def channel_of(address, *, tls):
    if not tls:
        return grpc.insecure_channel(address)
    certificate = ssl.get_server_certificate(parse_address(address))
    name = ("grpc.ssl_target_name_override", "gantrymq-test")
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(certificate.encode()), options=[name])


def call(channel, path, request, response):
    method = channel.unary_unary(
        path, request_serializer=lambda message: message.SerializeToString(), response_deserializer=response.FromString
    )
    return method(request, metadata=[("x-mq-client-id", "c1")], timeout=30)


@pytest.mark.gantrymq(settings=TLS)
def test_one_port_serves_tls_and_plain_text(gantrymq_broker):
    listeners = gantrymq_broker.cluster.server.identity.listeners
    for listener, tls in (("sdk", False), ("sdk", True), ("tls", True)):
        with channel_of(listeners[listener], tls=tls) as channel:
            health = call(channel, "/grpc.health.v1.Health/Check", HealthCheckRequest(), HealthCheckResponse)
            assert health.status == SERVING
            request = QueryRouteRequest(topic=Resource(name="unknown"))
            route = call(channel, f"/{SERVICE}/QueryRoute", request, QueryRouteResponse)
            assert route.status.code == Code.TOPIC_NOT_FOUND
    with channel_of(listeners["tls"], tls=False) as channel, pytest.raises(grpc.RpcError) as refused:
        call(channel, "/grpc.health.v1.Health/Check", HealthCheckRequest(), HealthCheckResponse)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
