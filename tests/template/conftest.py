"""A fresh virtual environment with wheels of core, contract tests, and the plugins that those need.

It has no other distribution of ours. The wheels are built from a copy of just these folders, so other files of the tree
cannot affect them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:  # makes `import own_plugins` work in any import mode of pytest
    sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ("admin", "filter_tag", "kit", "nameserver", "storage_mmap")
TREES = ("core", "libs/testing", "libs/store_files", *(f"plugins/{word}" for word in PLUGINS))
CLIENT = Path(__file__).with_name("client.py")
DEADLINE_S = 60
LEFT_OUT = ("NAMESRV_ADDR", "PYTHONPATH", "VIRTUAL_ENV")
BACKENDS = ("hatchling>=1.24", "setuptools>=77", "editables")  # what builds our distributions
INSTALL = ("install", "--no-compile")  # few of the modules are imported, which compiles them
PIP_S = 300


class Kit:
    """The virtual environment."""

    def __init__(self, folder):
        self.folder = folder
        self.programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        self.environ = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
        self.environ["HOME"] = str(folder)
        self.environ["MYPY_CACHE_DIR"] = str(folder / "mypy")  # each project's check would analyze core again

    def run(self, program, *words, cwd=None):
        """Run a program of the environment to its end; return its output; an error fails the test."""
        done = subprocess.run(
            [self.programs / program, *map(str, words)],
            capture_output=True,
            text=True,
            env=self.environ,
            cwd=cwd or self.folder,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pip(self, *words):
        """Run pip on the environment; return its last lines if it failed."""
        return pip("--python", self.folder / "venv", *words)

    def install(self, project):
        """Install a project in editable mode."""
        assert not self.pip("install", "--no-deps", "--no-build-isolation", "-e", project)

    def new_project(self, kind, name, folder):
        """Run ``gantrymq plugin new`` in *folder*; return the project's folder."""
        said = self.run("gantrymq", "plugin", "new", kind, name, "--output", "json", cwd=folder)
        return folder / json.loads(said)["folder"]

    def client(self, namesrv, *words):
        """Send a request to a broker through the client script; return the answer."""
        return json.loads(self.run("python", CLIENT, namesrv, *words))


class PipEnvironment:
    """A virtual environment with a pip of its own, and with what builds our distributions."""

    def __init__(self, folder, wanted):
        self.folder = folder
        self._python = folder / "bin" / "python"
        self._environ = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        problem = pip("--python", folder, *INSTALL, wanted, *BACKENDS)
        assert not problem, problem

    def pip(self, *words):
        """Run its pip in the root folder of this tree; return exit code and output."""
        done = subprocess.run(
            [self._python, "-m", "pip", "--disable-pip-version-check", *map(str, words)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=self._environ,
            timeout=PIP_S,
        )
        return done.returncode, done.stdout + done.stderr

    def install(self, *words):
        """Run ``pip install``; an error fails the test."""
        code, said = self.pip(*INSTALL, "--quiet", *words)
        assert code == 0, said


class Server:
    """``gantrymq start`` of the environment, killed when it outlives the deadline."""

    def __init__(self, kit, store):
        words = ["start", "--store", store, "--namesrv-port", 0, "--broker-port", 0, "--output", "json"]
        words += ["--log-level", "warning", "--set", "mappedFileSizeCommitLog=1048576"]
        self.process = subprocess.Popen(
            [kit.programs / "gantrymq", *map(str, words)], stdout=subprocess.PIPE, text=True, env=kit.environ
        )
        self.timer = threading.Timer(DEADLINE_S, self.process.kill)
        self.timer.start()
        line = self.process.stdout.readline()
        assert line, "the server did not start"
        self.namesrv = json.loads(line)["namesrv"]

    def end(self, number=signal.SIGTERM):
        """Send a signal and wait; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=DEADLINE_S)
        self.timer.cancel()
        return self.process.returncode


@pytest.fixture(scope="session")
def old_pip(tmp_path_factory):
    """An environment with the oldest pip that we support, which comes with Python 3.11.7 and 3.12.1."""
    return PipEnvironment(tmp_path_factory.mktemp("old"), "pip==23.2.1")


@pytest.fixture(scope="session")
def newest_pip(tmp_path_factory):
    """An environment with the newest pip."""
    return PipEnvironment(tmp_path_factory.mktemp("newest"), "pip")


@pytest.fixture(scope="session")
def kit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    trees = [folder / "tree" / tree for tree in TREES]
    for tree, copy in zip(TREES, trees, strict=True):
        shutil.copytree(ROOT / tree, copy, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    into = ["--python", str(folder / "venv")]
    built_here = ["--no-build-isolation"] if find_spec("hatchling") is not None else []
    needs = sorted({need for tree in trees for need in needs_of(tree)})
    missing = pip(*into, *INSTALL, *needs, *BACKENDS)
    if missing:
        pytest.skip(f"pip cannot get what core and builds need: {missing}")
    problem = pip("wheel", "--no-deps", *built_here, "--wheel-dir", folder / "wheels", *trees)
    if problem and not built_here:
        pytest.skip(f"pip cannot get hatchling, which builds the wheels: {problem}")
    assert not problem, problem
    problem = pip(*into, *INSTALL, "--no-index", *sorted((folder / "wheels").glob("*.whl")))
    assert not problem, problem
    return Kit(folder)


@pytest.fixture(scope="session")
def alone(kit, tmp_path_factory):
    """Another virtual environment, for which pip was given one name: gantrymq."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    made = Kit(folder)
    problem = made.pip(*INSTALL, "--find-links", kit.folder / "wheels", "gantrymq")
    assert not problem, problem
    return made


@pytest.fixture
def serve(kit, tmp_path):
    """Start a server on the test's store; call it again after the last one has ended."""
    started = []

    def start():
        started.append(Server(kit, tmp_path / "store"))
        return started[-1]

    yield start
    for server in started:
        server.end(signal.SIGKILL)


def needs_of(tree):
    """Requirements of a distribution that are not ours."""
    listed = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["dependencies"]
    return [need for need in listed if not need.startswith("gantrymq")]


def pip(*words):
    """Run pip; return "", or its last lines if it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, words)],
        capture_output=True,
        text=True,
    )
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
