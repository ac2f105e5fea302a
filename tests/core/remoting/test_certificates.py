"""Certificates of a server that are renewed while it runs."""

import os

import pytest
from certificates import make_certificate
from manual_clock import ManualClock

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.remoting.admission import ADMISSION_SETTINGS, admission_of
from gantrymq.remoting.certificates import RECHECK_S
from gantrymq.world.real import RealFiles


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def admission(tmp_path, clock):
    """Rules of a server with the certificate ``a``."""
    make_certificate(tmp_path, "a")
    values = {"tls.server.certPath": str(tmp_path / "a.pem"), "tls.server.keyPath": str(tmp_path / "a.key")}
    return admission_of(Settings(ADMISSION_SETTINGS, values), clock, RealFiles())


def renew(folder):
    make_certificate(folder, "b")
    for kind in ("pem", "key"):
        os.replace(folder / f"b.{kind}", folder / f"a.{kind}")


def test_changed_files_are_read_again_within_seconds(admission, clock, tmp_path):
    old = admission.tls_context()
    external = admission.requiring_tls("external")
    renew(tmp_path)
    assert admission.tls_context() is old
    clock.advance(RECHECK_S)
    assert admission.tls_context() is not old
    assert external.tls_context() is admission.tls_context()


def test_files_that_cannot_be_used_keep_the_old_certificate_and_are_logged_once(admission, clock, tmp_path, caplog):
    old = admission.tls_context()
    (tmp_path / "a.key").write_text("half a file")
    for _ in range(3):
        clock.advance(RECHECK_S)
        assert admission.tls_context() is old
    assert [each.getMessage()[:36] for each in caplog.records] == ["the old certificate stays in use: tl"]
    renew(tmp_path)
    clock.advance(RECHECK_S)
    assert admission.tls_context() is not old


def test_a_missing_file_stops_the_start(tmp_path, clock):
    values = {"tls.server.certPath": str(tmp_path / "none.pem")}
    with pytest.raises(ConfigError, match="No such file"):
        admission_of(Settings(ADMISSION_SETTINGS, values), clock, RealFiles())
