"""Files that a run by marks does not import, because they cannot have a test with these marks."""

from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).resolve().parents[1]
QUICK = "not slow and not kit and not spark and not interop and not long"
SLOW = "slow and not kit and not spark and not interop and not long"
EACH = "@pytest.mark.{}\ndef test_one(): ..."
ALL = "pytestmark = [pytest.mark.{}, pytest.mark.long]"


@pytest.fixture
def conftest(request):
    """The module tests/conftest.py."""
    plugins = request.config.pluginmanager.get_plugins()
    return next(each for each in plugins if getattr(each, "__file__", None) == str(TESTS / "conftest.py"))


def is_imported(conftest, folder, marks, text):
    """Whether a file with this text is imported in a run of the tests with these marks."""
    path = folder / "test_made_up.py"
    path.write_text(text)
    config = SimpleNamespace(option=SimpleNamespace(markexpr=marks, ran_in=None))
    return not conftest.pytest_ignore_collect(path, config)


@pytest.mark.parametrize(
    ("marks", "text", "expected"),
    [
        (QUICK, "def test_one(): ...", True),
        (QUICK, EACH.format("spark"), True),  # it may have others
        (QUICK, ALL.format("spark"), False),
        (QUICK, "pytestmark = pytest.mark.skipif(False, reason='a slow test')", True),
        (SLOW, "def test_one(): ...", False),
        (SLOW, EACH.format("slow"), True),
        (SLOW, "class TestRawLog(RawLogContract): ...", True),
        (SLOW, ALL.format("interop"), False),
        ("interop and not long", EACH.format("interop"), True),
        ("interop and not long", ALL.format("interop"), False),
        ("", ALL.format("interop"), True),
    ],
)
def test_a_file_is_imported_if_it_may_have_such_a_test(conftest, tmp_path, marks, text, expected):
    assert is_imported(conftest, tmp_path, marks, text) is expected


@pytest.mark.parametrize(("marks", "expected"), [(QUICK, False), (SLOW, True), ("", True)])
def test_a_folder_of_slow_tests_is_imported_for_slow_tests(conftest, tmp_path, monkeypatch, marks, expected):
    monkeypatch.setattr(conftest, "SLOW_FOLDERS", [tmp_path])
    assert is_imported(conftest, tmp_path, marks, "def test_one(): ...") is expected
