"""The console in a broker's process: its setting, its address, and that it costs nothing while it is off."""

from __future__ import annotations

import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from certificates import make_certificate
from click.testing import CliRunner
from console_door import make_users

from gantrymq.cli import main
from gantrymq.errors import ConfigError
from gantrymq_console.access import sessions


def test_the_service_serves_the_console_and_gives_its_address(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"consoleListen": "127.0.0.1:0"})
    service = running.call(running.broker.service, "console")
    with urllib.request.urlopen(service.url + "topics", timeout=20) as page:
        assert b"<h1>Topics</h1>" in page.read()
    running.restart()
    assert running.call(running.broker.service, "console").url.startswith("http://127.0.0.1:")


def test_without_the_setting_nothing_of_it_is_imported(gantrymq_broker):
    assert gantrymq_broker.call(gantrymq_broker.broker.service, "console").url == ""
    code = (
        "import sys, gantrymq_console.plugin; sys.exit(bool({'starlette', 'jinja2', 'uvicorn'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("listen", ["8088", "127.0.0.1:x"])
def test_an_address_that_cannot_be_used_stops_the_start(gantrymq_broker_factory, listen):
    with pytest.raises(ConfigError, match="consoleListen"):
        gantrymq_broker_factory({"consoleListen": listen})


def test_a_port_in_use_stops_the_start(gantrymq_broker_factory):
    first = gantrymq_broker_factory({"consoleListen": "127.0.0.1:0"})
    url = first.call(first.broker.service, "console").url
    with pytest.raises(ConfigError, match="taken by another process"):
        gantrymq_broker_factory({"consoleListen": url.split("/")[2]})


def test_quickstart_prints_the_address_of_the_console():
    pytest.importorskip("gantrymq_storage_mmap")
    pytest.importorskip("gantrymq_filter_tag")
    found = CliRunner().invoke(main, ["quickstart", "--exit"])
    assert found.exit_code == 0, found.output
    assert "console      http://127.0.0.1:" in found.output


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:0"])
def test_an_address_that_others_reach_needs_a_user_and_a_certificate(gantrymq_broker_factory, listen):
    with pytest.raises(ConfigError, match=r"consoleListen.*gantrymq console user add NAME.*tls.server.certPath"):
        gantrymq_broker_factory({"consoleListen": listen})


def test_users_of_the_store_s_folder_log_in(gantrymq_broker_factory, tmp_path):
    make_users(tmp_path / "gantrymq-0/store/console")
    certificate = make_certificate(tmp_path, "broker")
    settings = {"tls.server.certPath": certificate, "tls.server.keyPath": str(tmp_path / "broker.key")}
    running = gantrymq_broker_factory({"consoleListen": "0.0.0.0:0", **settings})
    scheme, _, rest = running.call(running.broker.service, "console").url.partition("://")
    name, _, port = rest.partition(":")
    assert scheme == "https" and name not in ("0.0.0.0", "127.0.0.1"), "an address that a browser can use"
    url = f"https://127.0.0.1:{port}"
    trusting = ssl.create_default_context(cafile=certificate)
    trusting.check_hostname = False
    with urllib.request.urlopen(url + "topics", timeout=20, context=trusting) as page:
        assert page.url == url + "login?to=%2Ftopics"


def test_two_consoles_do_not_share_a_folder(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"consoleListen": "127.0.0.1:0"})
    state = running.broker.root / "console"
    found = CliRunner().invoke(main, ["console", "-n", running.namesrv, "--state", str(state), "--no-login"])
    assert found.exit_code == 1 and "another console uses" in found.output


def test_visitors_without_log_in_cannot_keep_a_broker_from_its_sends(gantrymq_broker_factory, monkeypatch):
    monkeypatch.setattr(sessions, "RATE_S", 1e-6)
    running = gantrymq_broker_factory({"consoleListen": "127.0.0.1:0"})
    url = running.call(running.broker.service, "console").url

    def status():
        try:
            with urllib.request.urlopen(url + "about", timeout=20) as page:
                return page.status
        except urllib.error.HTTPError as refused:
            refused.close()
            return refused.code

    assert [status() for _ in range(int(sessions.BURST) + 2)] == [200] * int(sessions.BURST) + [429] * 2
