"""gRPC's own library as a client, on sockets."""

import asyncio

import pytest

pytest.importorskip("grpc.aio", reason="grpcio is not installed")
pytest.importorskip("h2")

import grpc
from grpc import aio
from grpc_served import SERVICE, Note, Served

from gantrymq.plugin.real_world import real_world
from gantrymq_grpc.transport.call import BidiStream, ServerStream, Unary
from gantrymq_grpc.transport.health import SERVING, HealthCheckRequest, HealthCheckResponse
from gantrymq_grpc.transport.status import GrpcError, StatusCode

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def echo(request, call):
    if request.number < 0:
        raise GrpcError(StatusCode.INVALID_ARGUMENT, "negative: “−1”, 100 %")
    return Note(text=request.text or call.metadata.get("x-text", ""), number=request.number + 1)


async def late_echo(request, call):
    await asyncio.sleep(0)
    return echo(request, call)


async def count(request, call):
    for number in range(request.number):
        await call.send(Note(number=number, text=request.text))


async def talk(call):
    while (request := await call.receive()) is not None:
        await call.send(echo(request, call))


class Holding:
    """A handler that holds its calls."""

    def __init__(self):
        self.calls = asyncio.Queue()

    async def __call__(self, request, call):
        self.calls.put_nowait(call)
        await asyncio.get_running_loop().create_future()


@pytest.fixture
def connected():
    """Run ``work(channel, served)`` with grpcio's client."""

    def run(work, handlers):
        async def main():
            world = real_world()
            async with Served(world, handlers) as served:
                host, port = served.listener.address
                async with aio.insecure_channel(f"{host}:{port}", options=OPTIONS) as channel:
                    await work(channel, served)
            await world.workers.close()

        asyncio.run(asyncio.wait_for(main(), 60))

    return run


def method(channel, name, kind="unary_unary", service=SERVICE, response=Note):
    return getattr(channel, kind)(
        f"/{service}/{name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=response.FromString,
    )


@pytest.mark.parametrize("handler", [echo, late_echo])
def test_unary_calls(connected, handler):
    async def work(channel, served):
        call = method(channel, "Unary")
        assert await call(Note(text="é文", number=1), timeout=30) == Note(text="é文", number=2)
        assert (await call(Note(), metadata=[("x-text", "from metadata")], timeout=30)).text == "from metadata"
        answers = await asyncio.gather(*(call(Note(number=number), timeout=30) for number in range(300)))
        assert [answer.number for answer in answers] == list(range(1, 301))
        with pytest.raises(aio.AioRpcError) as refused:
            await call(Note(number=-1), timeout=30)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == "negative: “−1”, 100 %"
        with pytest.raises(aio.AioRpcError) as refused:
            await method(channel, "Other")(Note(), timeout=30)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED

    connected(work, {"Unary": Unary(handler)})


def test_large_and_compressed_messages(connected):
    async def work(channel, served):
        call = method(channel, "Unary")
        large = "x" * (16 * 1024 * 1024 - 100)
        assert (await call(Note(text=large), timeout=30)).text == large
        answer = await call(Note(text="x" * 100_000), compression=grpc.Compression.Gzip, timeout=30)
        assert answer.text == "x" * 100_000
        with pytest.raises(aio.AioRpcError) as refused:
            await call(Note(text="x" * (130 << 20)), timeout=30)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await call(Note(number=1), timeout=30)).number == 2
        assert len(served.server.connections) == 1

    connected(work, {"Unary": Unary(echo)})


def test_streams(connected):
    async def work(channel, served):
        stream = method(channel, "Server", "unary_stream")(Note(number=40, text="x" * 500_000), timeout=30)
        assert [each.number async for each in stream] == list(range(40))
        talking = method(channel, "Bidi", "stream_stream")(timeout=30)
        for number in range(5):
            await talking.write(Note(number=number))
            assert (await talking.read()).number == number + 1
        await talking.done_writing()
        assert await talking.read() is aio.EOF
        assert await talking.code() is grpc.StatusCode.OK

    connected(work, {"Server": ServerStream(count), "Bidi": BidiStream(talk)})


def test_cancelled_calls_and_deadlines(connected):
    hold = Holding()

    async def work(channel, served):
        call = method(channel, "Server", "unary_stream")
        held = call(Note())
        waiting = asyncio.ensure_future(held.read())
        served_call = await hold.calls.get()
        closed = asyncio.get_running_loop().create_future()
        served_call.on_close(closed.set_result)
        held.cancel()
        await closed
        assert served.connection.calls == []
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(aio.AioRpcError) as late:
            await call(Note(), timeout=0.05).read()
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    connected(work, {"Server": ServerStream(hold)})


def test_a_stop_ends_streams_and_is_seen_by_the_client(connected):
    hold = Holding()

    async def work(channel, served):
        stream = method(channel, "Server", "unary_stream")(Note())
        waiting = asyncio.ensure_future(stream.read())
        await hold.calls.get()
        await served.server.stop()
        with pytest.raises(aio.AioRpcError) as ended:
            await waiting
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert ended.value.details() == "the server is stopping"

    connected(work, {"Server": ServerStream(hold)})


def test_health_checks(connected):
    async def work(channel, served):
        check = method(channel, "Check", service="grpc.health.v1.Health", response=HealthCheckResponse)
        assert (await check(HealthCheckRequest(service=SERVICE), timeout=30)).status == SERVING

    connected(work, {})
