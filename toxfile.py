"""What tox.ini cannot say by itself: it loads this file as a plugin and finds here what follows from the folders.

{plugins_alone}, {type_libraries} and {spark_libraries} are the same everywhere, {plugin} and {test_libraries} differ
from environment to environment. Besides, tox is shown the Pythons that pyenv has installed but not switched on, so that
the matrix uses each one that is here.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tox.plugin import impl

sys.path.insert(0, str(Path(__file__).resolve().parent / ".ci"))

import environments
import pythons
import workspace

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet, EnvConfigSet
    from tox.session.state import State

TREE = workspace.read()

if shutil.which("pyenv") and "TOX_DISCOVER" not in os.environ:
    os.environ["TOX_DISCOVER"] = "\n".join(pythons.installed())


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Add what is the same in every environment."""
    core_conf.add_constant(
        "plugins_alone", "an environment for each plugin", "\n".join(environments.plugins_alone(TREE))
    )
    core_conf.add_constant(
        "type_libraries", "what types are checked against", "\n".join(environments.type_libraries(TREE))
    )
    core_conf.add_constant(
        "spark_libraries", "what plugins need beside Spark", "\n".join(environments.spark_libraries(TREE))
    )


@impl
def tox_add_env_config(env_conf: EnvConfigSet, state: State) -> None:
    """Add what differs from environment to environment."""
    name = env_conf.env_name or ""
    alone = environments.plugin_of(name, TREE)
    env_conf.add_constant("plugin", "the plugin that is alone here", alone.word if alone is not None else "")
    env_conf.add_constant(
        "test_libraries", "what the tests there need", "\n".join(environments.test_libraries(name, TREE))
    )
