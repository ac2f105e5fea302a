"""The container image and the systemd unit agree with the rest of the tree."""

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
UNIT = ROOT / "packaging/systemd/gantrymq.service"


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


def test_the_image_does_not_run_as_root_and_asks_for_its_health():
    assert "\nUSER gantrymq\n" in DOCKERFILE
    assert "http://127.0.0.1:5557/healthz" in DOCKERFILE
    assert "\nVOLUME /data/store\n" in DOCKERFILE


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    analyze = shutil.which("systemd-analyze") or pytest.skip("systemd-analyze is not here")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/gantrymq/bin/gantrymq", shutil.which("true")))
    found = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (found.returncode, [line for line in found.stderr.splitlines() if UNIT.name in line]) == (0, [])
