"""Which plugins are installed: the entry points of group ``gantrymq``. Nothing is imported here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points
from importlib.metadata import distribution as installed_distribution
from types import ModuleType
from typing import Any

import attrs

from gantrymq.errors import PluginError

GROUP = "gantrymq"


@attrs.frozen
class Candidate:
    """An installed plugin that may be loaded."""

    name: str  # the entry point's name, one word
    distribution: str  # what pip calls it; empty for a plugin handed in by code
    version: str
    entry_point: EntryPoint | None = None
    given: Any = None  # the plugin itself, when there is no entry point to import

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    def load(self) -> Any:
        """Import the plugin's module.

        Raises:
            PluginError: the import failed; says which plugin, why and what to do about it.
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
        """How to get rid of a problem with this plugin."""
        if not self.distribution:
            return "correct the plugin or do not hand it in"
        return (
            f"reinstall it, remove it (pip uninstall {self.distribution}), or name the plugins to load with plugins=..."
        )


def find_candidates(only_distribution: str = "") -> tuple[list[Candidate], list[str]]:
    """Every installed plugin, sorted by name, and a sentence for each name that two distributions claim.

    Of two claimants neither is a candidate. The same distribution seen twice on the path counts once.

    Args:
        only_distribution: look at this distribution alone, and at no claims of others: 1 ms instead of 5 or more.
    """
    by_name: dict[str, dict[str, Candidate]] = {}
    for point in _entry_points(only_distribution):
        distribution = point.dist.name if point.dist is not None else point.module
        version = point.dist.version if point.dist is not None else "?"
        by_name.setdefault(point.name, {}).setdefault(distribution, Candidate(point.name, distribution, version, point))
    found: list[Candidate] = []
    problems: list[str] = []
    for name, claimants in sorted(by_name.items()):
        if len(claimants) == 1:
            found.extend(claimants.values())
        else:
            listed = " and ".join(sorted(claimants))
            problems.append(f"the plugin name {name} is claimed by {listed}; uninstall all but one of them")
    return found, problems


def _entry_points(only_distribution: str) -> Iterable[EntryPoint]:
    if not only_distribution:
        return entry_points(group=GROUP)
    try:
        return installed_distribution(only_distribution).entry_points.select(group=GROUP)
    except PackageNotFoundError:
        return ()


def given(plugins: Iterable[tuple[str, Any]]) -> list[Candidate]:
    """Candidates for plugins that code hands in, such as a test or a program that embeds a broker."""
    return [
        Candidate(name, "", getattr(plugin, "__version__", "") if isinstance(plugin, ModuleType) else "", given=plugin)
        for name, plugin in plugins
    ]
