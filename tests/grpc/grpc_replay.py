"""Replays of recorded conversations with a simulated broker."""

from google.protobuf.json_format import MessageToDict
from grpc_recorded import NOW_MS

OWN = {  # differ from run to run
    *("receipt_handle", "recall_handle", "transaction_id", "offset", "queue_id", "queue_offset", "store_timestamp"),
    *("store_host", "born_timestamp", "delivery_timestamp", "message_id", "born_host"),
}
LEARNED = ("receipt_handle", "recall_handle", "transaction_id")


def as_dict(message):
    return MessageToDict(message, preserving_proto_field_name=True)


def stripped(value, without=OWN):
    """Return *value* without some fields, by default those that differ from run to run."""
    if isinstance(value, dict):
        return {key: stripped(each, without) for key, each in value.items() if key not in without}
    return [stripped(each, without) for each in value] if isinstance(value, list) else value


class Replay:
    """The conversation with a broker, one request after the other."""

    def __init__(self, served):
        self.served, self.sdks, self.streams = served, {}, {}
        self.ours = {}  # recorded handles and ids, and ours
        self.shift_ms = served.clock.now_ms() - NOW_MS

    async def sdk(self, line):
        name = "" if line.note == "no client id" else line.client
        if name not in self.sdks:
            self.sdks[name] = await self.served.sdk(name or None, x_mq_client_version="5.0.8")
        return self.sdks[name]

    def request(self, line):
        """Return a request with our handles, and with its times moved."""
        request = type(line.message)()
        request.CopyFrom(line.message)
        if (line.method, line.note) == ("ReceiveMessage", "before settings"):
            request.group.name = "Another"  # ours serves it, which would create the group before its settings
        for message in getattr(request, "messages", ()):
            if message.system_properties.HasField("delivery_timestamp"):
                message.system_properties.delivery_timestamp.seconds += self.shift_ms // 1000
        for place in [request, *getattr(request, "entries", ())]:
            for name in LEARNED:
                if getattr(place, name, ""):
                    setattr(place, name, self.ours.get(getattr(place, name), getattr(place, name)))
        return request

    async def answers(self, line):
        """Return the messages that answer a request, or the status of gRPC."""
        sdk = await self.sdk(line)
        if line.method == "Telemetry":
            stream, answer = await sdk.telemetry(line.message.settings)
            self.streams[line.client] = stream
            return [answer] if answer is not None else stream.stream
        more = {"grpc_timeout": "3S"} if line.note == "deadline 3 s" else {}
        stream = await sdk.client.ended(sdk.open(line.method, self.request(line), **more))
        return sdk.messages(line.method, stream) if stream.status == 0 else stream

    def learn(self, recorded, ours):
        """Remember our handles and ids for the recorded ones."""
        if isinstance(recorded, dict) and isinstance(ours, dict):
            for key in recorded.keys() & ours.keys():
                if key in LEARNED:
                    self.ours[recorded[key]] = ours[key]
                self.learn(recorded[key], ours[key])
        elif isinstance(recorded, list) and isinstance(ours, list):
            for one, other in zip(recorded, ours, strict=False):
                self.learn(one, other)


def grouped(lines):
    """Iterate over the requests, each with its answers: those before the next request.

    If the file names the client of each answer: only those to the client, before its next request.
    """
    named = all(line.client for line in lines if line.direction != "request")
    for at, line in enumerate(lines):
        if line.direction != "request":
            continue
        answers = []
        for later in lines[at + 1 :]:
            if named and later.client != line.client:
                continue
            if later.direction == "request":
                break
            if later.method == line.method and not _is_command(later):
                answers.append(later)
        yield line, answers


def _is_command(line):
    return line.method == "Telemetry" and line.message is not None and line.message.WhichOneof("command") != "settings"
