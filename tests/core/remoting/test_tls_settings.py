"""Sources of the settings of TLS, for servers and for clients."""

import pytest

from gantrymq.config import HIDDEN, Settings
from gantrymq.errors import ConfigError
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.remoting.tls_settings import TLS_SETTINGS, client_of, tls_file_layer
from gantrymq.settings_load import Given


def test_the_file_gives_settings_of_tls_only(real_files, tls_file):
    layer = tls_file_layer(real_files, Given(f" {tls_file} ", "--set tls.config.file"))
    assert set(layer.entries) == {
        "tls.enable",
        "tls.client.authServer",
        "tls.client.trustCertPath",
        "tls.server.certPath",
    }
    assert layer.entries["tls.enable"] == Given("true", f"{tls_file} line 2")


def test_a_file_that_was_named_must_be_there(real_files, tmp_path):
    with pytest.raises(ConfigError, match="cannot read the settings file"):
        tls_file_layer(real_files, Given(str(tmp_path / "missing"), "environment"))
    assert not tls_file_layer(real_files, None).entries


def test_a_file_that_was_named_must_have_a_setting_of_tls(real_files, tmp_path):
    (tmp_path / "broker.conf").write_text("brokerName=broker-a\n")
    with pytest.raises(ConfigError, match=r"^environment: .*broker.conf has no setting of TLS"):
        tls_file_layer(real_files, Given(str(tmp_path / "broker.conf"), "environment"))
    (tmp_path / "tls.properties").write_text("# tls.enable=true\n")
    assert not tls_file_layer(real_files, Given(str(tmp_path / "tls.properties"), "environment")).entries


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
