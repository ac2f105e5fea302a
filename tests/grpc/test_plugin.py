"""The plugin's entry point and its settings."""

import subprocess
import sys

from gantrymq.plugin.settings import Settings
from gantrymq_grpc.settings import SCHEMA, receive_limits, transport_limits


def test_loading_the_plugin_imports_no_library():
    code = "import sys, gantrymq_grpc.plugin; print(*sorted({'google', 'hpack', 'grpc', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"


def test_settings_become_limits():
    limits = transport_limits(Settings(SCHEMA))
    assert (limits.max_message_bytes, limits.idle_timeout_s, limits.max_age_s) == (16 * 1024 * 1024, 120.0, 0.0)
    assert receive_limits(Settings(SCHEMA)) == (10_000, 5_000)
    values = {
        "grpcMaxInboundMessageSize": 5_000_000,
        "grpcClientIdleTimeMills": 1500,
        "grpcMaxConnectionAgeMills": 60_000,
        "minInvisibleTimeMillsForRecv": 3,
        "grpcClientConsumerMinLongPollingTimeoutMillis": 0,
    }
    assert receive_limits(Settings(SCHEMA, values)) == (3, 0)
    limits = transport_limits(Settings(SCHEMA, values))
    assert (limits.max_message_bytes, limits.idle_timeout_s, limits.max_age_s) == (5_000_000, 1.5, 60.0)
