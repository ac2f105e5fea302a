"""Servers and commands that speak TLS, as processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "gantrymq"
DEADLINE_S = 60

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command"),
]
needs_store = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")


@pytest.fixture
def home(tmp_path):
    """A home with a certificate for the server and a tls.properties that uses it."""
    words = ("req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2", "-subj", "/CN=server")
    files = ("-keyout", "server.key", "-out", "server.pem")
    subprocess.run(["openssl", *words, *files], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "tls.properties").write_text(
        f"tls.server.mode=enforcing\ntls.server.certPath={tmp_path}/server.pem\ntls.server.keyPath={tmp_path}/server.key\n"
        f"tls.client.authServer=true\ntls.client.trustCertPath={tmp_path}/server.pem\n"
    )
    return tmp_path


def environment(home):
    clean = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    return {**clean, "HOME": str(home)}


@contextmanager
def running(home, *words):
    """A server; its ready line."""
    process = subprocess.Popen(
        [PROGRAM, *words, "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home),
        cwd=home,
    )
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def run(home, *words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment(home), timeout=DEADLINE_S)


def test_a_name_server_that_enforces_it_answers_commands_with_tls_only(home):
    with running(home, "nameserver", "--port", "0", "--set", "tls.config.file=tls.properties") as ready:
        asked = ("topic", "list", "--all", "--output", "json", "-n", ready["namesrv"])
        trusting = run(home, *asked, "--tls", "--tls-config", str(home / "tls.properties"))
        assert (trusting.returncode, trusting.stderr) == (0, "")
        assert run(home, *asked, "--tls").returncode == 0
        plain = run(home, *asked)
        assert plain.returncode == 1
        assert plain.stderr == (
            f"gantrymq: {ready['namesrv']}: the name server closed the connection before the answer; it may require "
            "TLS, or a client certificate; --tls and --tls-config set both\n"
        )


@pytest.mark.parametrize("words", [("topic", "list"), ("status",)])
def test_a_name_server_with_another_certificate_is_not_called_absent(home, words):
    new = ("req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2", "-subj", "/CN=other")
    files = ("-keyout", "other.key", "-out", "other.pem")
    subprocess.run(["openssl", *new, *files], cwd=home, check=True, capture_output=True)
    (home / "client.properties").write_text(f"tls.client.authServer=true\ntls.client.trustCertPath={home}/other.pem\n")
    with running(home, "nameserver", "--port", "0", "--set", "tls.config.file=tls.properties") as ready:
        found = run(home, *words, "-n", ready["namesrv"], "--tls", "--tls-config", str(home / "client.properties"))
    assert found.returncode == 1
    assert f"{ready['namesrv']}: the TLS handshake failed: the peer's certificate does not hold" in found.stderr
    assert found.stderr.count(ready["namesrv"]) == 1
    assert "gantrymq start" not in found.stderr


@needs_store
def test_both_servers_of_one_process_take_the_settings(home):
    words = ("--set", "tls.config.file=tls.properties", "--set", "store=memory", "--set", "plugins=storage_memory")
    ports = ("--namesrv-port", "0", "--broker-port", "0")
    with running(home, "start", "--store", str(home / "store"), *ports, *words) as ready:
        found = run(home, "status", "--output", "json", "-n", ready["namesrv"], "--tls")
        assert found.returncode == 0, found.stderr
        assert ready["broker"] in found.stdout
