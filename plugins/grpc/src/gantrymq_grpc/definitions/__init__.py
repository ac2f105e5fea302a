"""Messages, enums and methods of RocketMQ's gRPC protocol, `apache.rocketmq.v2`.

`google.protobuf` is imported with this package, so only what serves a gRPC listener may import it.
"""

from gantrymq_grpc.definitions.enums import *  # noqa: F403
from gantrymq_grpc.definitions.messages import *  # noqa: F403
from gantrymq_grpc.definitions.requests import *  # noqa: F403
from gantrymq_grpc.definitions.tables import ProtobufMessage as ProtobufMessage
