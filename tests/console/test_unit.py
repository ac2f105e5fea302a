"""The systemd unit of the console agrees with the command."""

import re
import tomllib
from pathlib import Path

import pytest

from gantrymq_console.commands.console import console
from gantrymq_console.web import texts

UNIT = Path(__file__).resolve().parents[2] / "packaging/systemd/gantrymq-console.service"


def test_the_unit_uses_options_of_the_command():
    text = UNIT.read_text()
    known = {option for each in console.params for option in each.opts}
    assert {*re.findall(r"(?<!-)--[a-z-]+", text)} - {"--role"} <= known
    assert "StateDirectory=gantrymq-console\n" in text and "--state /var/lib/gantrymq-console\n" in text
    assert "--no-login" not in text


def test_a_key_that_a_catalogue_has_twice_is_reported_with_its_file(tmp_path, monkeypatch):
    (tmp_path / "texts/en").mkdir(parents=True)
    (tmp_path / "texts/en/groups.toml").write_text('deleted = "Deleted"\ndeleted = "Group {group} was deleted."\n')
    monkeypatch.setattr(texts, "files", lambda package: tmp_path)
    with pytest.raises(tomllib.TOMLDecodeError) as raised:
        texts.texts_of.__wrapped__("en")
    assert raised.value.__notes__ == ["in texts/en/groups.toml of gantrymq_console"]
