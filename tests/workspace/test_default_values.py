"""The documentation shows the values of named defaults."""

from pathlib import Path

import pytest

griffe = pytest.importorskip("griffe")

EXTENSION = Path(__file__).resolve().parents[2] / ".ci" / "default_values.py"
LIMITS = "MOST = 4 * 1024\n_WAIT_S = 5.0\nLONGER_S = _WAIT_S\n"
SAMPLE = """
import attrs

from sample.limits import LONGER_S, MOST
from elsewhere import OTHER

_NAMES = ["a"]

@attrs.frozen
class Settings:
    wait_s: float = attrs.field(default=LONGER_S, validator=print)
    names: list[str] = attrs.field(factory=list)
    most: int = MOST

    def read(self, most: int = MOST, names: list[str] = _NAMES, other: int = OTHER, kind: type = str) -> None: ...
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    (folder / "sample").mkdir()
    (folder / "sample" / "__init__.py").write_text(SAMPLE)
    (folder / "sample" / "limits.py").write_text(LIMITS)
    package = griffe.load("sample", search_paths=[folder], extensions=griffe.load_extensions(EXTENSION))
    return package["Settings"]


def test_fields_show_the_values_of_constants(settings):
    assert {name: str(field.value) for name, field in settings.attributes.items()} == {
        "wait_s": "5.0",
        "names": "attrs.field(factory=list)",
        "most": "4 * 1024",
    }


def test_parameters_show_the_values_of_constants_and_other_names_unchanged(settings):
    assert {each.name: str(each.default) for each in settings["read"].parameters if each.default is not None} == {
        "most": "4 * 1024",
        "names": "_NAMES",
        "other": "OTHER",
        "kind": "str",
    }
