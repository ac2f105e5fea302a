"""The service of health checks."""

from grpc_served import SERVICE, prefixed

from gantrymq_grpc.transport.health import NOT_SERVING, SERVING, HealthCheckRequest

HEALTH = "grpc.health.v1.Health"


def asked(service):
    return prefixed(HealthCheckRequest(service=service).SerializeToString())


def states(stream):
    """The states that have arrived: responses of one byte each."""
    data = bytes(stream.data)
    assert len(data) % 7 == 0
    return [data[at + 6] for at in range(0, len(data), 7)]


def test_check_knows_the_server_and_its_services(serve):
    async def work(served):
        client = await served.connect()
        for service in ("", SERVICE):
            stream = await client.call("Check", asked(service), service=HEALTH)
            assert stream.status == 0
            assert states(stream) == [SERVING]
        stream = await client.call("Check", asked("other"), service=HEALTH)
        assert (stream.status, stream.text) == (5, "unknown service other")
        stream = await client.call("List", asked(""), service=HEALTH)
        assert stream.status == 12

    serve(work)


def test_watch_sends_each_change_until_the_client_ends_it(serve):
    async def work(served):
        client = await served.connect()
        stream = client.open("Watch", asked(SERVICE), service=HEALTH)
        other = client.open("Watch", asked("other"), service=HEALTH)
        await served.world.clock.sleep(1)
        health = served.server.health
        health.set([SERVICE], NOT_SERVING)
        await served.world.clock.sleep(1)
        health.set([SERVICE], NOT_SERVING)
        await served.world.clock.sleep(1)
        health.set(["other", SERVICE], SERVING)
        await served.world.clock.sleep(1)
        assert states(stream) == [SERVING, NOT_SERVING, SERVING]
        assert states(other) == [3, SERVING]
        client.reset(stream)
        client.reset(other)
        await served.world.clock.sleep(1)
        assert health._watching == {}

    serve(work)
