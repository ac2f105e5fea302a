"""The page about three machines starts the units of the plans that it describes."""

import re
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_admin")

from gantrymq_admin.planning.description import parse
from gantrymq_admin.planning.placing import place

PAGE = Path(__file__).parents[2] / "docs/operations/three-machines.md"


def test_the_units_are_those_of_the_plans():
    text = PAGE.read_text()
    sections = [text.split("## With elected masters")[0], text.split("## With elected masters")[1]]
    for section in sections:
        (plan,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
        started = {
            (machine, unit)
            for machine, units in re.findall(r"ssh root@(m\d) systemctl enable --now (.*)", section)
            for unit in units.replace("gantrymq-broker@", "").replace("gantrymq-nameserver", "namesrv").split()
        }
        assert started == {(each.machine, each.name) for each in place(parse(plan, "c.toml"))}
