"""Loading plugins: import them, let pluggy check them against the hook specs, and call each hook of each plugin once.

A plugin is broken if it cannot be imported, implements a hook that does not exist, takes arguments that a hook does not
have, raises an exception in a hook, or registers something that another plugin has registered. A server does not start
with a broken plugin; a command skips it with everything it registered, and continues.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from typing import Any

import pluggy

from gantrymq import hooks
from gantrymq.commands.imported import collections_paused
from gantrymq.config import Setting
from gantrymq.errors import PluginConflict, PluginError
from gantrymq.plugins.discover import Candidate, find_candidates, given
from gantrymq.plugins.loaded import PluginInfo, Plugins, PluginState
from gantrymq.plugins.registries import KINDS, SettingRegistry, registries


def load_plugins(
    allowed: str = "",
    source: str = "",
    *,
    strict: bool = True,
    reserved: Iterable[Setting] = (),
    only_hooks: Collection[str] | None = None,
    extra: Iterable[tuple[str, Any]] = (),
    installed: bool = True,
    only_distribution: str = "",
) -> Plugins:
    """Load the installed plugins and collect the objects that they register.

    Args:
        allowed: value of the setting ``plugins``: names separated by commas; empty means all.
        source: source of that value, for errors.
        strict: True for servers: raise the first problem. False for commands: return problems in the result.
        reserved: settings declared by core, which plugins cannot declare.
        only_hooks: hooks to call, such as ``gantry_register_commands``; None means all of them.
        extra: plugins passed in by code, as name and module (or object); always allowed.
        only_distribution: load only the plugins of this distribution; empty means all.
        installed: False ignores installed plugins, for tests and embedding.

    Raises:
        PluginError: the first problem, with *strict*.
    """
    candidates, problems = find_candidates(only_distribution) if installed else ([], [])
    loader = _Loader(reserved, only_hooks, problems)
    loader.block(candidates, allowed, source)
    with collections_paused():
        for candidate in [*candidates, *given(extra)]:
            loader.load(candidate)
    if strict and loader.problems:
        more = len(loader.problems) - 1
        hint = f" ({more} more: see gantrymq plugins)" if more else ""
        raise loader.error_type(loader.problems[0] + hint)
    return loader.result()


class _Loader:
    """One pass over the plugins."""

    def __init__(self, reserved: Iterable[Setting], only_hooks: Collection[str] | None, problems: list[str]) -> None:
        self.problems = list(problems)
        self.error_type: type[PluginError] = PluginConflict if problems else PluginError
        self._registries = registries()
        for registry in self._registries.values():
            if isinstance(registry, SettingRegistry):
                registry.reserved = frozenset(setting.key for setting in reserved)
        self._hooks = [name for name in self._registries if only_hooks is None or name in only_hooks]
        self._infos: list[PluginInfo] = []
        self._manager = pluggy.PluginManager(hooks.PROJECT)
        self._manager.add_hookspecs(hooks)

    def block(self, candidates: list[Candidate], allowed: str, source: str) -> None:
        """Block plugins not named in the setting ``plugins``; a name that is not installed is a problem."""
        wanted = {name.strip() for name in allowed.split(",") if name.strip()}
        if not wanted:
            return
        names = [candidate.name for candidate in candidates]
        for name in names:
            if name not in wanted:
                self._manager.set_blocked(name)
        for name in sorted(wanted.difference(names)):
            near = _nearest(name, names)
            hint = f"did you mean {near[0]}?" if near else f"installed are {', '.join(names) or 'none'}"
            where = f"{source}: " if source else ""
            self._note(PluginError(f"{where}plugins={allowed}: no plugin called {name} is installed; {hint}"))

    def load(self, candidate: Candidate) -> None:
        """Import, check and register one plugin; after a problem, nothing of it stays registered."""
        if self._manager.is_blocked(candidate.name):
            self._inform(candidate, PluginState.LEFT_OUT)
            return
        if self._manager.has_plugin(candidate.name):
            self._note(PluginConflict(f"two plugins are called {candidate.name}; hand in or install only one of them"))
            return
        try:
            self._register(candidate, candidate.load())
        except PluginError as problem:
            if self._manager.has_plugin(candidate.name):
                self._manager.unregister(name=candidate.name)
            for registry in self._registries.values():
                registry.forget(candidate.name)
            self._note(problem)
            self._inform(candidate, PluginState.BROKEN, str(problem))
        else:
            self._inform(candidate, PluginState.LOADED)

    def _register(self, candidate: Candidate, plugin: Any) -> None:
        try:
            self._manager.register(plugin, candidate.name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as problem:
            reason = _misspelt(self._manager, plugin) or " ".join(str(problem).split())
            raise PluginError(f"plugin {candidate} does not fit the hooks: {reason}; {candidate.remedy}") from problem
        if unmarked := _unmarked(plugin):
            raise PluginError(
                f"plugin {candidate} defines {unmarked} without @hookimpl, so it would never be called; "
                f"add the marker of gantrymq.hooks"
            )
        implemented = {caller.name for caller in self._manager.get_hookcallers(plugin) or ()}
        for hook in filter(implemented.__contains__, self._hooks):
            self._call(candidate, plugin, hook)

    def _call(self, candidate: Candidate, plugin: Any, hook: str) -> None:
        registry = self._registries[hook]
        registry.owner = candidate.name
        others = [other for other in self._manager.get_plugins() if other is not plugin]
        try:
            self._manager.subset_hook_caller(hook, others)(registry=registry)
        except PluginError:
            raise
        except Exception as problem:
            raise PluginError(
                f"plugin {candidate} failed in {hook}: {type(problem).__name__}: {problem}; {candidate.remedy}"
            ) from problem

    def _note(self, problem: PluginError) -> None:
        if not self.problems:
            self.error_type = type(problem)
        self.problems.append(str(problem))

    def _inform(self, candidate: Candidate, state: PluginState, problem: str = "") -> None:
        registers = [words for registry in self._registries.values() for words in registry.owned_by(candidate.name)]
        self._infos.append(
            PluginInfo(candidate.name, candidate.distribution, candidate.version, state, tuple(registers), problem)
        )

    def result(self) -> Plugins:
        """Return everything that was registered."""
        found: dict[str, Any] = {kind.word: self._registries[kind.hook].collected() for kind in KINDS}
        return Plugins(tuple(self._infos), tuple(self.problems), **found)


def _nearest(name: str, known: Collection[str]) -> list[str]:
    from difflib import get_close_matches  # only for an error

    return get_close_matches(name, known, 1)


def _misspelt(manager: pluggy.PluginManager, plugin: Any) -> str:
    """Return a phrase about the first hook of *plugin* that does not exist, or an empty string."""
    known = [name for name in vars(hooks) if name.startswith("gantry_")]
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec():
            near = _nearest(caller.name, known)
            return f"there is no hook {caller.name}" + (f", did you mean {near[0]}?" if near else "")
    return ""


def _unmarked(plugin: Any) -> str:
    """Return the first function of the plugin that is named like a hook but lacks the marker, or an empty string."""
    home = getattr(plugin, "__name__", None)
    marker = f"{hooks.PROJECT}_impl"
    for name, member in vars(plugin).items() if home else ():
        own = inspect.isfunction(member) and member.__module__ == home
        if own and name.startswith("gantry_") and not hasattr(member, marker):
            return str(name)
    return ""
