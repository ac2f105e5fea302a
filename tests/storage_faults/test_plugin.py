"""The installed plugin: its entry point loads, and its fixture shows traces of failed tests."""

import subprocess
import sys
import textwrap

from gantrymq.plugins import load_plugins
from gantrymq_storage_faults import FaultyFiles


def test_it_loads_beside_a_broker_and_registers_nothing():
    plugins = load_plugins("storage_faults")
    (info,) = [info for info in plugins.infos if info.name == "storage_faults"]
    assert info.state.name == "LOADED"
    assert plugins.stores == {}


def test_the_fixture_makes_files(faulty_files, disk):
    inner, folder = disk
    files = faulty_files(inner)
    assert isinstance(files, FaultyFiles)
    files.lock(folder / "lock", b"")


def run_pytest(folder, code):
    """Run *code* as a separate test file; return the exit code and pytest's output."""
    (folder / "test_it.py").write_text(textwrap.dedent(code))
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={folder}", "test_it.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_failing_test_shows_the_calls(tmp_path):
    code, said = run_pytest(
        tmp_path,
        """
        from pathlib import Path
        from gantrymq_testing.simulated import SimulatedFiles
        from gantrymq_storage_faults import FaultPlan

        def test_it(faulty_files):
            files = faulty_files(SimulatedFiles(lambda: 0), FaultPlan(seed="lucky"))
            files.make_dirs(Path("/some/folder"))
            assert False
        """,
    )
    assert code == 1, said
    assert "faulty_files 1" in said
    assert "seed 'lucky', 1 calls" in said
    assert "make_dirs /some/folder" in said


def test_what_a_test_leaves_running_is_crashed(tmp_path):
    code, said = run_pytest(
        tmp_path,
        """
        from gantrymq.world.real import RealFiles

        def test_one(faulty_files, tmp_path_factory):
            assert faulty_files(RealFiles()).lock(tmp_path_factory.getbasetemp() / "lock", b"")

        def test_two(faulty_files, tmp_path_factory):
            assert faulty_files(RealFiles()).lock(tmp_path_factory.getbasetemp() / "lock", b"")
        """,
    )
    assert code == 0, said
    assert "2 passed" in said
