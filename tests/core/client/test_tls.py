"""TLS settings from the environment, for a client without a ``tls`` option."""

import attrs
import pytest

from gantrymq.client.calls.credentials import tls_of_environment
from gantrymq.errors import ConfigError
from gantrymq.remoting.tls_contexts import TlsClient


def test_a_client_reads_the_file_and_the_environment_over_it(real_files, tls_file):
    environ = {"tls.config.file": str(tls_file), "tls.client.trustCertPath": "/mine.pem", "tls.client.keyPassword": "s"}
    wanted = TlsClient(auth_server=True, trust_cert_path="/mine.pem", key_password="s")
    assert tls_of_environment(real_files, environ, None) == wanted
    assert tls_of_environment(real_files, environ, True) == wanted
    assert tls_of_environment(real_files, environ, False) is None
    assert tls_of_environment(real_files, {**environ, "tls.enable": "false"}, None) is None
    assert tls_of_environment(real_files, {**environ, "tls.enable": "false"}, True) == wanted


def test_a_client_goes_without_by_default(real_files):
    assert tls_of_environment(real_files, {}, None) is None
    assert tls_of_environment(real_files, {}, True) == TlsClient()
    assert attrs.asdict(TlsClient())["auth_server"] is False


def test_a_value_that_does_not_fit_names_its_place(real_files):
    with pytest.raises(ConfigError, match=r"environment variable tls\.client\.authServer: .* neither true nor false"):
        tls_of_environment(real_files, {"tls.client.authServer": "yes"}, True)


def test_an_unknown_key_of_the_file_is_named_with_the_nearest(real_files, tmp_path):
    (tmp_path / "tls.properties").write_text("tls.client.authSever=true\n")
    with pytest.raises(
        ConfigError,
        match=r"tls.properties.*there is no setting tls.client.authSever \(did you mean tls.client.authServer\?\)",
    ):
        tls_of_environment(real_files, {"tls.config.file": str(tmp_path / "tls.properties")}, True)
