"""What is installed: an entry point that loads, and a fixture that shows traces when a test fails."""

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


def test_a_failing_test_shows_the_calls(pytester):
    pytester.makepyfile(
        """
        from pathlib import Path
        from gantrymq.world.simulated import SimulatedFiles
        from gantrymq_storage_faults import Plan

        def test_it(faulty_files):
            files = faulty_files(SimulatedFiles(lambda: 0), Plan(seed="lucky"))
            files.make_dirs(Path("/some/folder"))
            assert False
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*faulty_files 1*", "seed 'lucky', 1 calls*", "*make_dirs /some/folder"])


def test_what_a_test_leaves_running_is_crashed(pytester):
    pytester.makepyfile(
        """
        from gantrymq.world.real import RealFiles

        def test_one(faulty_files, tmp_path_factory):
            assert faulty_files(RealFiles()).lock(tmp_path_factory.getbasetemp() / "lock", b"")

        def test_two(faulty_files, tmp_path_factory):
            assert faulty_files(RealFiles()).lock(tmp_path_factory.getbasetemp() / "lock", b"")
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
