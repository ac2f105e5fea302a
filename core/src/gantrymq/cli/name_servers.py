"""Selection of the name server implementation from plugins (`gantry_register_name_servers`).

The plugin `TO_INSTALL` is loaded without any other, so that ``gantrymq nameserver`` starts fast. The setting
``plugins`` applies only to the broker.
"""

from __future__ import annotations

from gantrymq.commands.output import warn
from gantrymq.errors import PluginError, install_command
from gantrymq.interfaces import NameServerKind
from gantrymq.plugins import load_plugins

__all__ = ["TO_INSTALL", "name_server_kind"]

TO_INSTALL = "gantrymq-nameserver"

_HOOKS = ("gantry_register_name_servers",)


def name_server_kind() -> NameServerKind:
    """Return the name server of `TO_INSTALL`, or of another plugin if that is not installed.

    Raises:
        PluginError: no installed plugin offers a name server, several others do, or the known one is broken.
    """
    loaded = load_plugins(only_hooks=_HOOKS, only_distribution=TO_INSTALL)
    if not loaded.name_servers:
        loaded = load_plugins(strict=False, only_hooks=_HOOKS)
        for problem in loaded.problems:
            warn(problem)
    kinds = list(loaded.name_servers.values())
    if not kinds:
        raise PluginError(f"no name server plugin is installed; install one with: {install_command(TO_INSTALL)}")
    if len(kinds) > 1:
        names = ", ".join(kind.name for kind in kinds)
        raise PluginError(f"plugins offer several name servers ({names}); uninstall all but one of them")
    return kinds[0]
