"""The hooks and the registries belong together."""

import re
from pathlib import Path

import attrs

from gantrymq import hooks
from gantrymq.plugins import Plugins
from gantrymq.plugins.registries import KINDS, registries


def test_every_hook_has_a_registry_and_every_registry_a_hook():
    assert set(registries()) == {name for name in vars(hooks) if name.startswith("gantry_")}


def test_every_kind_has_a_member_of_what_loading_yields():
    of_kinds = {field.name for field in attrs.fields(Plugins)} - {"infos", "problems"}
    assert {kind.word for kind in KINDS} == of_kinds


def test_settings_come_first():
    assert next(iter(registries())) == "gantry_register_config"


def test_every_hook_says_when_it_is_called_and_what_goes_wrong():
    for name, hook in vars(hooks).items():
        if name.startswith("gantry_"):
            assert "When:" in hook.__doc__, name
            assert "Errors:" in hook.__doc__, name


def test_the_architecture_page_names_every_hook_and_no_other():
    page = (Path(__file__).resolve().parents[3] / "docs/internals/architecture.md").read_text()
    assert re.findall(r"^\| `(gantry_\w+)` \|", page, re.MULTILINE) == list(registries())
