"""Where the settings of TLS come from, for servers and for clients."""

import pytest

from gantrymq.config import HIDDEN, Settings
from gantrymq.errors import ConfigError
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.remoting.tls_settings import TLS_SETTINGS, client_of, tls_file_layer
from gantrymq.settings_load import Given
from gantrymq.world.real import real_world

FILE = """
tls.enable=true
tls.client.authServer=true
tls.client.trustCertPath=/etc/ca.pem
tls.server.certPath=/etc/server.pem
brokerName=not-for-this-file
"""


@pytest.fixture
def files():
    return real_world().files


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tls.properties"
    path.write_text(FILE)
    return path


def test_the_file_gives_settings_of_tls_only(files, file):
    layer = tls_file_layer(files, Given(f" {file} ", "--set tls.config.file"))
    assert set(layer.entries) == {
        "tls.enable",
        "tls.client.authServer",
        "tls.client.trustCertPath",
        "tls.server.certPath",
    }
    assert layer.entries["tls.enable"] == Given("true", f"{file} line 2")


def test_a_file_that_was_named_must_be_there(files, tmp_path):
    with pytest.raises(ConfigError, match="cannot read the settings file"):
        tls_file_layer(files, Given(str(tmp_path / "missing"), "environment"))
    assert not tls_file_layer(files, None).entries


@pytest.mark.parametrize(
    ("mode", "enable", "uses"),
    [
        ("permissive", "", False),
        ("enforcing", "", True),
        ("enforcing", "false", False),
        ("permissive", "true", True),
        ("disabled", "", False),
    ],
)
def test_a_server_uses_tls_towards_others_where_it_enforces_it(mode, enable, uses):
    settings = Settings(TLS_SETTINGS, {"tls.server.mode": mode, "tls.enable": enable})
    assert client_of(settings) == (TlsClient() if uses else None)


def test_passwords_are_not_shown():
    settings = Settings(TLS_SETTINGS, {"tls.server.keyPassword": "sesame"})
    shown = settings.as_dict()
    assert (shown["tls.server.keyPassword"], shown["tls.client.keyPassword"]) == (HIDDEN, "")
    assert settings.as_dict(secrets=True)["tls.server.keyPassword"] == "sesame"
    assert settings.text("tls.server.keyPassword") == "sesame"
