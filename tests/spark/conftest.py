"""Golden stores, the Spark session and a broker for the tests of the Spark plugin."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))
if str(Path(__file__).parents[1] / "golden") not in sys.path:
    sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

from golden_stores import Scenario, unpack

# Modules that import pyspark are not collected where it is missing. tox's environment `spark` has it, and runs what has
# that mark; there, a module that skips all it has is a failure.
if find_spec("pyspark") is None:
    here = Path(__file__).parent
    collect_ignore = [each.name for each in here.glob("test_*.py") if 'importorskip("pyspark")' in each.read_text()]


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory):
    """Every golden store, unpacked once; nothing may be written there."""
    folder = tmp_path_factory.mktemp("golden")
    unpack(folder)
    return folder


@pytest.fixture(scope="session")
def golden(golden_folder):
    """Scenarios by name; nothing may be written there."""
    return lambda name: Scenario(name, golden_folder / name)


@pytest.fixture
def golden_copy(golden_folder, tmp_path):
    """Scenarios by name, each call a fresh copy that may be written."""
    numbers = iter(range(1000))

    def get(name):
        folder = tmp_path / str(next(numbers))
        shutil.copytree(golden_folder / name, folder)
        return Scenario(name, folder)

    return get


@pytest.fixture(scope="session")
def session(spark):
    """The Spark session of the run, with the plugin's sources and sinks."""
    from gantrymq_spark import register

    register(spark)
    return spark


@pytest.fixture(scope="module")
def broker(request, tmp_path_factory):
    """A broker with the SETTINGS of the test module."""
    from gantrymq_testing.running_broker import RunningBroker

    with RunningBroker(tmp_path_factory.mktemp("broker"), request.module.SETTINGS) as running:
        yield running
