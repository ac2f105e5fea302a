"""The tables of the protocol: equal to the descriptors of the official Python SDK, and in a pool of their own."""

import ast
import subprocess
import sys
from enum import IntEnum
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from gantrymq_grpc import definitions
from gantrymq_grpc.definitions import (
    METHODS,
    Code,
    Duration,
    Message,
    MessageType,
    OffsetOption,
    ReceiveMessageResponse,
    Resource,
    SendMessageRequest,
    Status,
    SystemProperties,
)

SDK = "rocketmq-python-client"
FILES = ("definition", "service")


@pytest.fixture(scope="module")
def of_the_sdk():
    """The SDK's serialized file descriptors, read from its source: an import would register them globally."""
    try:
        installed = distribution(SDK)
    except PackageNotFoundError:
        pytest.skip(f"{SDK} is not installed")
    return [serialized(installed.locate_file(f"rocketmq/grpc_protocol/{name}_pb2.py").read_text()) for name in FILES]


def serialized(source):
    """Return the file descriptor that a generated module registers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            return FileDescriptorProto.FromString(ast.literal_eval(node.args[0]))
    raise AssertionError("no serialized file in the module")


def plain(descriptor):
    """Return the facts of a message's descriptor; a default JSON name is left out."""
    for field in descriptor.field:
        field.ClearField("json_name")
    return {
        "fields": {field.name: field for field in descriptor.field},
        "oneofs": [each.name for each in descriptor.oneof_decl],
        "enums": {each.name: values(each) for each in descriptor.enum_type},
        "nested": {each.name: plain(each) for each in descriptor.nested_type},
    }


def values(enum):
    return {each.name: each.number for each in enum.value}


def ours(message):
    copy = DescriptorProto()
    message.DESCRIPTOR.CopyToProto(copy)
    return copy


def test_messages_equal_the_descriptors_of_the_sdk(of_the_sdk):
    for file in of_the_sdk:
        for wanted in file.message_type:
            assert plain(ours(getattr(definitions, wanted.name))) == plain(wanted), wanted.name


def test_enums_equal_the_descriptors_of_the_sdk(of_the_sdk):
    for file in of_the_sdk:
        for wanted in file.enum_type:
            members = getattr(definitions, wanted.name).__members__
            assert {name: int(member) for name, member in members.items()} == values(wanted), wanted.name


def test_methods_equal_the_service_of_the_sdk(of_the_sdk):
    (service,) = of_the_sdk[1].service
    assert f"{of_the_sdk[1].package}.{service.name}" == definitions.SERVICE
    assert {each.name for each in service.method} == set(METHODS)
    for wanted in service.method:
        method = METHODS[wanted.name]
        found = (method.request.DESCRIPTOR.full_name, method.response.DESCRIPTOR.full_name)
        assert tuple(f".{name}" for name in found) == (wanted.input_type, wanted.output_type)
        assert (method.client_streams, method.server_streams) == (wanted.client_streaming, wanted.server_streaming)


def test_the_sdk_has_every_name_of_the_tables(of_the_sdk):
    listed = {each.name for file in of_the_sdk for each in (*file.message_type, *file.enum_type)}
    kinds = (IntEnum, definitions.ProtobufMessage)
    here = {name for name, value in vars(definitions).items() if isinstance(value, type) and issubclass(value, kinds)}
    assert here - listed == {"Duration", "IntEnum", "ProtobufMessage", "Timestamp"}


def test_the_descriptors_of_the_sdk_can_be_registered_in_the_same_process(of_the_sdk):
    program = (
        "import sys\n"
        "from google.protobuf import descriptor_pool, duration_pb2, timestamp_pb2\n"
        "import gantrymq_grpc.definitions\n"
        "for text in sys.argv[1:]:\n"
        "    descriptor_pool.Default().AddSerializedFile(bytes.fromhex(text))\n"
    )
    files = [file.SerializeToString().hex() for file in of_the_sdk]
    subprocess.run([sys.executable, "-c", program, *files], check=True)


def test_a_message_survives_the_wire_with_optional_zeros_and_newer_fields():
    sent = SendMessageRequest(
        messages=[
            Message(
                topic=Resource(name="Orders"),
                user_properties={"k": "v"},
                system_properties=SystemProperties(queue_offset=0, message_type=MessageType.FIFO, keys=["a", "b"]),
                body=b"\x00\xff",
            )
        ]
    )
    newer = sent.SerializeToString() + b"\xfa\x3f\x03new"  # field 1023, which the tables do not have
    (read,) = SendMessageRequest.FromString(newer).messages
    assert read.system_properties.HasField("queue_offset") and not read.system_properties.HasField("delivery_attempt")
    assert (read.body, dict(read.user_properties), list(read.system_properties.keys)) == (
        b"\x00\xff",
        {"k": "v"},
        ["a", "b"],
    )
    assert SendMessageRequest.FromString(newer).SerializeToString() == newer


def test_oneofs_and_nested_enums_and_well_known_types():
    assert ReceiveMessageResponse(status=Status(code=Code.OK)).WhichOneof("content") == "status"
    assert OffsetOption(policy=OffsetOption.Policy.MAX).WhichOneof("offset_type") == "policy"
    assert Duration.DESCRIPTOR.full_name == "google.protobuf.Duration"


def test_a_broker_without_a_grpc_listener_imports_neither_protobuf_nor_http2():
    program = (
        "import sys, gantrymq_grpc.plugin\n"
        "heavy = ('google', 'hpack', 'h2', 'gantrymq_grpc.definitions', 'gantrymq_grpc.transport.c')\n"
        "assert not [name for name in sys.modules if name.startswith(heavy)]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
