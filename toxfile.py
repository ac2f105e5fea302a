"""Extends tox.ini with values derived from the folders; tox loads this file as a plugin.

{quick}, {alone}, {type_libraries} and {spark_libraries} are the same in every environment, {label}, {plugin},
{plugin_tests} and {test_libraries} differ. Besides, tox learns the Pythons that pyenv has installed but not activated,
so that the matrix uses every installed one.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tox.config.types import Command
from tox.plugin import impl

sys.path.insert(0, str(Path(__file__).resolve().parent / ".ci"))

import environments
import pythons
import workspace

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet, EnvConfigSet
    from tox.execute.api import Outcome
    from tox.session.state import State
    from tox.tox_env.api import ToxEnv

TREE = workspace.read()
PASSED: set[str] = set()  # environments of this run whose commands passed

if shutil.which("pyenv") and "TOX_DISCOVER" not in os.environ:
    os.environ["TOX_DISCOVER"] = "\n".join(pythons.installed())
    folders = [str(Path(python).parent) for python in pythons.installed()]
    os.environ["UV_PYTHON_SEARCH_PATH"] = os.pathsep.join([*folders, os.environ["PATH"]])  # the same for tox-uv


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Add the values that are the same in every environment."""
    core_conf.add_constant("quick", "environments of a plain run", "\n".join(environments.quick()))
    core_conf.add_constant("alone", "environments with one plugin or none", "\n".join(environments.alone(TREE)))
    core_conf.add_constant(
        "type_libraries", "what types are checked against", "\n".join(environments.type_libraries(TREE))
    )
    core_conf.add_constant(
        "spark_libraries", "what plugins need beside Spark", "\n".join(environments.spark_libraries(TREE))
    )


@impl
def tox_extend_envs() -> tuple[str, ...]:
    """Return the environments that a plain run leaves out, so that tox finds them by their label."""
    return tuple(environments.full(TREE))


@impl
def tox_add_env_config(env_conf: EnvConfigSet, state: State) -> None:
    """Add the values that differ between environments."""
    name = env_conf.env_name or ""
    alone = environments.plugin_of(name, TREE)
    env_conf.add_constant("label", "the label it is run by", "full" if name in environments.full(TREE) else "")
    env_conf.add_constant("plugin", "the plugin that is alone here", alone.word if alone is not None else "")
    # As a command, of which tox does not make one quoted argument.
    env_conf.add_constant("plugin_tests", "its tests", Command(alone.tests if alone is not None else ["tests"]))
    env_conf.add_constant(
        "test_libraries", "what the tests there need", "\n".join(environments.test_libraries(name, TREE))
    )


@impl
def tox_after_run_commands(tox_env: ToxEnv, exit_code: int, outcomes: list[Outcome]) -> None:
    """Print after the last environment of a plain run what it left out, unless one of them failed."""
    if exit_code == 0:
        PASSED.add(tox_env.name)
    if tox_env.name == environments.quick()[-1] and PASSED.issuperset(environments.quick()):
        print(
            "The fast tests passed. `tox run -m full` runs the rest: other Pythons, core and each plugin alone, slow\n"
            "tests, sanitizers, plugin projects, Spark, official clients and servers."
        )
