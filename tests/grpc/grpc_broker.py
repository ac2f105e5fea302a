"""A simulated broker that serves gRPC, and clients that send the requests of an SDK."""

import hmac

import pytest

pytest.importorskip("h2")
pytest.importorskip("gantrymq_storage_memory")
pytest.importorskip("gantrymq_pop")

from grpc_served import Accepting, Client, prefixed

from gantrymq.model.topic import TopicConfig
from gantrymq_grpc.definitions import (
    METHODS,
    SERVICE,
    Address,
    AddressScheme,
    ClientType,
    Code,
    Endpoints,
    FilterExpression,
    FilterType,
    Message,
    MessageQueue,
    MessageType,
    Publishing,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
    SystemProperties,
    TelemetryCommand,
    TransactionResolution,
    TransactionSource,
)
from gantrymq_grpc.definitions import Broker as BrokerMessage
from gantrymq_grpc.mastership import Mastership
from gantrymq_grpc.protocol import GrpcProtocol
from gantrymq_testing.accounts import credentials_of

TRANSACTIONS = {"transactionTimeOut": 6000, "transactionCheckInterval": 3000}
ENDPOINTS = Endpoints(scheme=AddressScheme.IPv4, addresses=[Address(host="127.0.0.1", port=17881)])


class GrpcBroker:
    """A broker of `gantrymq_simulation` with a gRPC listener ``sdk``."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.world, self.broker = cluster.world, cluster.broker
        self.clock = self.world.clock
        mastership = Mastership()
        mastership.is_master = mastership.serves_receives = True
        self.protocol = GrpcProtocol(mastership)
        self.certificate = ""  # of new connections
        self.sdks = []

    async def __aenter__(self):
        await self.protocol.start(self.broker, {"sdk": "127.0.0.1:8081"})
        self.listener = await self.world.network.listen("127.0.0.1", 0, self.accepting)
        return self

    async def __aexit__(self, *error):
        await self.listener.close()
        await self.protocol.stop()

    def accepting(self):
        return Accepting(self.protocol, self.certificate)

    def topic(self, name, queues=2, kind="NORMAL", perm=6):
        self.broker.topics.put(TopicConfig(name, queues, queues, perm, attributes={"message.type": kind}))

    async def sdk(self, client_id="c1", **metadata):
        """Return a new connection of a client; *metadata* as for `grpc_served.Client.open`, see `signed`."""
        host, port = self.listener.address
        _, client = await self.world.network.connect(host, port, Client)
        sdk = Sdk(self, client, client_id, metadata)
        self.sdks.append(sdk)
        return sdk


def signed(user, secret=None, date_time="20261129T174233Z"):
    """Return the metadata of a client with an account of `gantrymq_testing.accounts`."""
    secret = credentials_of(user).secret_key if secret is None else secret
    signature = hmac.digest(secret.encode(), date_time.encode(), "sha1").hex()
    text = f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"x_mq_date_time": date_time, "authorization": text}


class Sdk:
    """One connection of a client."""

    def __init__(self, served, client, client_id, metadata):
        self.served, self.client, self.client_id = served, client, client_id
        self.metadata = {"x_mq_language": "JAVA", "x_mq_client_version": "5.0.8", **metadata}

    def open(self, method, request=None, *, end=True, **more):
        """Begin a call and return its stream."""
        metadata = {"x_mq_client_id": self.client_id, **self.metadata, **more}
        body = None if request is None else prefixed(request.SerializeToString())
        metadata = {name: value for name, value in metadata.items() if value is not None}
        return self.client.open(method, body, end=end, service=SERVICE, **metadata)

    def messages(self, method, stream):
        """Return what a stream has received."""
        found, rest = [], bytes(stream.data)
        while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[1:5], "big"):
            size = 5 + int.from_bytes(rest[1:5], "big")
            found.append(METHODS[method].response.FromString(rest[5:size]))
            rest = rest[size:]
        return found

    async def all(self, method, request, **more):
        """Make a call and return all its messages."""
        stream = await self.client.ended(self.open(method, request, **more))
        assert stream.status == 0, stream.text
        return self.messages(method, stream)

    async def call(self, method, request=None, **more):
        """Make a call with one response, and return it."""
        request = METHODS[method].request() if request is None else request
        (response,) = await self.all(method, request, **more)
        return response

    # --- what SDKs do -------------------------------------------------------------------------------------------------

    async def telemetry(self, settings, **more):
        """Open a stream with *settings*, and return it with the first answer."""
        stream = Telemetry(self, self.open("Telemetry", TelemetryCommand(settings=settings), end=False, **more))
        return stream, await stream.next()

    async def producer(self, *topics):
        settings = Settings(
            client_type=ClientType.PRODUCER, publishing=Publishing(topics=[Resource(name=each) for each in topics])
        )
        return (await self.telemetry(settings))[0]

    async def consumer(self, group="G", *topics, kind=ClientType.PUSH_CONSUMER, expression="*"):
        return (await self.telemetry(consumer_settings(group, *topics, kind=kind, expression=expression)))[0]

    async def send(self, topic="T", body=b"hello", **properties):
        """Send one message, and return its entry."""
        response = await self.call("SendMessage", send_request(topic, body, **properties))
        assert response.status.code == 20000, response.status
        (entry,) = response.entries
        return entry

    async def receive(self, group="G", topic="T", **fields):
        """Receive, and return the messages; the statuses are checked."""
        first, *messages, last = await self.all("ReceiveMessage", receive_request(group, topic, **fields))
        assert first.WhichOneof("content") == "status"
        assert last.WhichOneof("content") == "delivery_timestamp"
        assert first.status.code == (20000 if messages else 40401), first.status
        return [each.message for each in messages]

    async def ack(self, message, group="G", topic="T", method="AckMessage"):
        request = METHODS[method].request(group=Resource(name=group), topic=Resource(name=topic))
        entry = request.entries.add()
        entry.message_id = message.system_properties.message_id
        entry.receipt_handle = message.system_properties.receipt_handle
        return (await self.call(method, request)).entries[0].status

    async def change(self, message, seconds, group="G", topic="T"):
        request = METHODS["ChangeInvisibleDuration"].request(group=Resource(name=group), topic=Resource(name=topic))
        request.receipt_handle = message.system_properties.receipt_handle
        request.message_id = message.system_properties.message_id
        request.invisible_duration.seconds = seconds
        return await self.call("ChangeInvisibleDuration", request)


class Telemetry:
    """A telemetry stream of a client."""

    def __init__(self, sdk, stream):
        self.sdk, self.stream, self.read = sdk, stream, 0

    async def next(self):
        """Return the next command; None at the end of the stream."""
        await self.sdk.client.until(lambda: len(self.all()) > self.read or self.stream.ended)
        if len(self.all()) == self.read:
            return None
        self.read += 1
        return self.all()[self.read - 1]

    def all(self):
        return self.sdk.messages("Telemetry", self.stream)

    def send(self, command, *, end=False):
        self.sdk.client.data(self.stream, prefixed(command.SerializeToString()), end=end)

    def end(self):
        self.sdk.client.h2.end_stream(self.stream.id)
        self.sdk.client.flush()


def consumer_settings(group, *topics, kind=ClientType.PUSH_CONSUMER, expression="*"):
    entries = [
        SubscriptionEntry(
            topic=Resource(name=each), expression=FilterExpression(type=FilterType.TAG, expression=expression)
        )
        for each in topics or ("T",)
    ]
    return Settings(client_type=kind, subscription=Subscription(group=Resource(name=group), subscriptions=entries))


_ids = iter(range(10**9))


def message_of(topic="T", body=b"hello", **properties):
    user = properties.pop("user", {})
    system = SystemProperties(message_id=f"01{next(_ids):032X}", message_type=MessageType.NORMAL, **properties)
    return Message(topic=Resource(name=topic), body=body, user_properties=user, system_properties=system)


def send_request(topic="T", body=b"hello", **properties):
    return METHODS["SendMessage"].request(messages=[message_of(topic, body, **properties)])


def receive_request(group="G", topic="T", *, expression="*", batch=32, invisible=30, polling=5, broker="", **fields):
    queue = MessageQueue(topic=Resource(name=topic), id=-1, broker=BrokerMessage(name=broker))
    request = METHODS["ReceiveMessage"].request(
        group=Resource(name=group),
        message_queue=queue,
        filter_expression=FilterExpression(type=FilterType.TAG, expression=expression),
        batch_size=batch,
        **fields,
    )
    if invisible is not None:
        request.invisible_duration.seconds = invisible
    if polling is not None:
        request.long_polling_timeout.seconds = polling
    return request


def producer_settings(*topics):
    named = [Resource(name=each) for each in topics]
    return Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=named))


async def beat(sdk, group="G"):
    request = METHODS["Heartbeat"].request(group=Resource(name=group), client_type=ClientType.PUSH_CONSUMER)
    return (await sdk.call("Heartbeat", request)).status.code


async def half(sdk, body=b"half"):
    """Send a message of a transaction, and return its entry."""
    request = send_request("T", body)
    request.messages[0].system_properties.message_type = MessageType.TRANSACTION
    (entry,) = (await sdk.call("SendMessage", request)).entries
    assert entry.status.code == Code.OK, entry.status
    return entry


async def decide(sdk, entry, resolution=TransactionResolution.COMMIT, *, checked=False):
    source = TransactionSource.SOURCE_SERVER_CHECK if checked else TransactionSource.SOURCE_CLIENT
    request = METHODS["EndTransaction"].request(
        topic=Resource(name="T"),
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=resolution,
        source=source,
    )
    return (await sdk.call("EndTransaction", request)).status.code


def checks(stream):
    """Return the checks of transactions that a stream has received."""
    commands = [each.recover_orphaned_transaction_command for each in stream.all() if not each.HasField("settings")]
    return [each for each in commands if each.transaction_id]
