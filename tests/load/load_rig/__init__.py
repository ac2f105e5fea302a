"""A load without a client library: prebuilt frames over raw connections, against `gantrymq start` in its own process.

| module | content |
|---|---|
| `requests` | requests as bytes, in which only the opaque, which pairs answer and request, changes |
| `connection` | one connection: sends requests, gathers writes, matches answers |
| `pump` | a closed loop: a fixed number of requests in flight, spread over connections in turn |
| `crowd` | clients that send, pull and pause, each at its own pace |
| `slow_reader` | a client that requests much and does not read |
| `broker_process` | `gantrymq start`, its CPU time and its memory |
| `figures` | percentiles |

Used by the load test and by `benchmarks/`. The frames are built here and not by GantryMQ, so that the load costs
little and checks the broker with independent code.
"""

from load_rig.broker_process import BrokerProcess, cpu_s, memory_bytes, raise_descriptor_limit
from load_rig.connection import Answer, Connection, connect
from load_rig.crowd import Crowd
from load_rig.figures import percentile
from load_rig.pump import Pump
from load_rig.requests import (
    FIRST_OPAQUE,
    Request,
    commit_request,
    create_topic_request,
    heartbeat_request,
    members_request,
    pull_request,
    send_request,
)
from load_rig.slow_reader import SlowReader

__all__ = [
    "FIRST_OPAQUE",
    "Answer",
    "BrokerProcess",
    "Connection",
    "Crowd",
    "Pump",
    "Request",
    "SlowReader",
    "commit_request",
    "connect",
    "cpu_s",
    "create_topic_request",
    "heartbeat_request",
    "members_request",
    "memory_bytes",
    "percentile",
    "pull_request",
    "raise_descriptor_limit",
    "send_request",
]
