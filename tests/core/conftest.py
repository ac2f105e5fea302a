"""Settings of TLS in a file, and the real files that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.world import Files
from gantrymq.world.real import real_world


@pytest.fixture
def real_files() -> Files:
    return real_world().files


@pytest.fixture
def tls_file(tmp_path: Path) -> Path:
    """The contents of a tls.config.file, with a line that is not a setting of TLS."""
    path = tmp_path / "tls.properties"
    path.write_text("""
tls.enable=true
tls.client.authServer=true
tls.client.trustCertPath=/etc/ca.pem
tls.server.certPath=/etc/server.pem
brokerName=not-for-this-file
""")
    return path
