"""Discovery of installed plugins: the entry points of group ``gantrymq``. Plugins are not imported here."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import attrs

from gantrymq.errors import PluginError
from gantrymq.plugins.entry_points import EntryPoint, entry_points

GROUP = "gantrymq"


@attrs.frozen
class Candidate:
    """An installed plugin that can be loaded."""

    name: str  # the entry point's name, one word
    distribution: str  # its name for pip; empty for a plugin passed in by code
    version: str
    entry_point: EntryPoint | None = None
    given: Any = None  # the plugin itself if there is no entry point

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    def load(self) -> Any:
        """Import the plugin's module.

        Raises:
            PluginError: the import failed.
        """
        if self.entry_point is None:
            return self.given
        try:
            return self.entry_point.load()
        except Exception as problem:
            reason = str(problem) or "no reason given"
            raise PluginError(
                f"plugin {self} does not import: {type(problem).__name__}: {reason}; {self.remedy}"
            ) from problem

    @property
    def remedy(self) -> str:
        """Advice for a problem with this plugin."""
        if not self.distribution:
            return "correct the plugin or do not hand it in"
        return (
            f"reinstall it, remove it (pip uninstall {self.distribution}), or name the plugins to load with plugins=..."
        )


def find_candidates(only_distribution: str = "") -> tuple[list[Candidate], list[str]]:
    """Return the installed plugins, sorted by name, and an error sentence for each name claimed by two distributions.

    A name claimed twice gives no candidate. The same distribution twice on the path counts once.

    Args:
        only_distribution: search only this distribution, without checking other claims.
    """
    by_name: dict[str, dict[str, Candidate]] = {}
    for point in entry_points(GROUP, only_distribution):
        candidate = Candidate(point.name, point.distribution, point.version, point)
        by_name.setdefault(point.name, {}).setdefault(point.distribution, candidate)
    found: list[Candidate] = []
    problems: list[str] = []
    for name, claimants in sorted(by_name.items()):
        if len(claimants) == 1:
            found.extend(claimants.values())
        else:
            listed = " and ".join(sorted(claimants))
            problems.append(f"the plugin name {name} is claimed by {listed}; uninstall all but one of them")
    return found, problems


def given(plugins: Iterable[tuple[str, Any]]) -> list[Candidate]:
    """Return candidates for plugins passed in by code, for example by a test or a program that embeds a broker."""
    return [
        Candidate(name, "", getattr(plugin, "__version__", "") if isinstance(plugin, ModuleType) else "", given=plugin)
        for name, plugin in plugins
    ]
