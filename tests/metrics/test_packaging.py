"""The container image agrees with the rest of the tree, and systemd finds the units sound and hardened."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gantrymq.settings_load import is_rocketmq_key
from gantrymq_metrics.settings import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
RUNNING = ROOT / "docs/operations/running.md"
SYSTEMD = ROOT / "packaging/systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
HARDENING = (SYSTEMD / "gantrymq-.service.d/hardening.conf").read_text()
MOST_EXPOSED = 2.0  # of systemd's scale to 10


def test_the_image_has_the_default_install():
    built = DOCKERFILE.partition("FROM python:3.12-slim\n")[0]
    assert " install --no-cache-dir -r requirements.txt\n" in built
    copied = re.findall(r"^COPY (\S+) \1$", built, re.MULTILINE)
    assert copied == ["core", "libs", "plugins", "requirements.txt"]
    assert set(re.findall(r"^\./(\w+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)) <= set(copied)
    assert {f"!{each}" for each in copied} <= set((ROOT / ".dockerignore").read_text().split())


def test_the_image_s_variables_are_settings():
    block = re.search(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)[1]
    names = re.findall(r"^ *(\w+)=", block, re.MULTILINE)
    declared = {each.key for each in SCHEMA}
    assert [name for name in names if not (name.isupper() or is_rocketmq_key(name) or name in declared)] == []


def test_the_image_and_the_documented_settings_let_others_in():
    assert "\n    bindAddress=0.0.0.0 \\\n" in DOCKERFILE
    documented = re.search(r"^```\n(brokerClusterName=.*?)^```$", RUNNING.read_text(), re.MULTILINE | re.DOTALL)[1]
    assert "brokerIP1=192.0.2.10\n" in documented


def test_the_image_listens_for_grpc_clients_unless_variables_say_otherwise():
    written = re.search(r"echo '(listeners=sdk=grpc://0\.0\.0\.0:(\d+))' > (\S+)", DOCKERFILE)
    assert f'CMD ["start", "-c", "{written[3]}", "--store", "/data/store"]' in DOCKERFILE
    assert re.search(rf"^EXPOSE .*\b{written[2]}\b", DOCKERFILE, re.MULTILINE)


def test_the_image_does_not_run_as_root_and_asks_for_its_health():
    assert "\nUSER gantrymq\n" in DOCKERFILE
    assert "http://127.0.0.1:5557/healthz" in DOCKERFILE
    assert "\nVOLUME /data/store\n" in DOCKERFILE


@pytest.fixture(params=UNITS, ids=lambda unit: unit.stem)
def analyze(request, tmp_path):
    """``analyze(*words)`` runs systemd-analyze on one unit, whose program is replaced by one that exists."""
    program = shutil.which("systemd-analyze") or pytest.skip("systemd-analyze is not here")
    shutil.copytree(SYSTEMD / "gantrymq-.service.d", tmp_path / "gantrymq-.service.d")
    unit = tmp_path / request.param.name.replace("@", "@broker-a")
    unit.write_text(request.param.read_text().replace("/opt/gantrymq/bin/gantrymq", shutil.which("true")))
    return lambda *words: subprocess.run([program, *words, unit], capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_wrong_with_a_unit(analyze):
    found = analyze("verify", "--man=no")
    assert (found.returncode, [line for line in found.stderr.splitlines() if "gantrymq" in line]) == (0, [])


def test_a_unit_is_hardened(analyze):
    found = analyze("security", "--offline=true")
    level = re.search(r"exposure level for .*?: ([\d.]+)", found.stdout)
    if level is None:
        pytest.skip(f"this systemd-analyze knows no --offline: {found.stderr[:80]}")
    assert float(level[1]) < MOST_EXPOSED


def sandbox(text):
    """The lines of a unit that are a sandbox."""
    return set(
        re.findall(
            r"^(?:No|Private|Protect|Restrict|Lock|Capability|SystemCall|Remove|UMask)\w+=.*$", text, re.MULTILINE
        )
    )


def test_all_units_have_the_same_sandbox():
    assert len(sandbox(HARDENING)) > 20
    assert sandbox((SYSTEMD / "gantrymq.service").read_text()) == sandbox(HARDENING)
    of_console = sandbox((SYSTEMD / "gantrymq-console.service").read_text())
    stricter = {"SystemCallFilter=~@privileged": "SystemCallFilter=~@privileged @resources"}
    assert of_console == {stricter.get(line, line) for line in sandbox(HARDENING)}
    for unit in ("gantrymq-broker@.service", "gantrymq-nameserver.service"):
        assert sandbox((SYSTEMD / unit).read_text()) == set()
