"""The compiled functions as a wheel: one for every Python from 3.11 on."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import wheel_contents
import workspace

pytestmark = [
    pytest.mark.kit,
    pytest.mark.skipif(sys.platform == "win32", reason="looks for a compiler as POSIX has it"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]

ROOT = Path(__file__).resolve().parents[2]
LOAD = "import sys; sys.path.insert(0, sys.argv[1]); import gantrymq_speedups._compiled as c; print(c.INTERFACE)"


def number(path, pattern):
    (found,) = re.findall(pattern, (ROOT / path).read_text())
    return int(found)


def build(folder, **environ):
    """Build a wheel in *folder* from a copy of the sources, without optimization, which takes most of the time."""
    source = folder / "speedups"
    shutil.copytree(ROOT / "libs/speedups", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so"))
    built_here = ["--no-build-isolation"] if find_spec("setuptools") is not None else []
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", *built_here, "--wheel-dir", folder, source],
        capture_output=True,
        text=True,
        env={**os.environ, "CFLAGS": "-O0", **environ},
    )
    if done.returncode and not built_here:
        pytest.skip(f"pip cannot get setuptools, which builds the wheel: {done.stderr.strip().splitlines()[-1:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"))


def test_the_release_check_refuses_a_wheel_that_was_built_without_a_compiler(wheel, tmp_path):
    compiled = workspace.read().libs[workspace.COMPILED]
    assert wheel_contents.problems(wheel, compiled) == []
    broken = build(tmp_path, CC="false")
    (problem,) = wheel_contents.problems(broken, compiled)
    assert problem.startswith(f"{broken.name} lacks the compiled module")


def test_its_tag_is_that_of_the_limited_api(wheel):
    assert re.fullmatch(r"gantrymq_speedups-[\w.]+-cp311-abi3-\w+\.whl", wheel.name)
    names = [name for name in ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))]
    assert names == ["gantrymq_speedups/_compiled.abi3.so"]


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_each_python_loads_it(wheel, tmp_path, minor):
    program = sys.executable if sys.version_info[1] == minor else shutil.which(f"python3.{minor}")
    if program is None or subprocess.run([program, "--version"], capture_output=True).returncode:
        pytest.skip(f"no Python 3.{minor} here")
    ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run([program, "-c", LOAD, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == number("core/src/gantrymq/speedups.py", r"INTERFACE: Final = (\d+)")


def test_core_and_the_wheel_have_one_interface():
    asked = number("core/src/gantrymq/speedups.py", r"INTERFACE: Final = (\d+)")
    assert asked == number("libs/speedups/c/module.c", r'"INTERFACE", (\d+)\)')
