"""The plugin kernel: finds what is installed, calls every hook once, and hands out what was registered.

    entry points of group "gantrymq"  ->  discover  ->  load (pluggy, hooks)  ->  Plugins

Which store, transaction service or strategy is used, the settings say by name; the order of loading means nothing.
"""

from gantrymq.plugins.discover import Candidate, find_candidates
from gantrymq.plugins.load import load_plugins
from gantrymq.plugins.loaded import PluginInfo, Plugins, PluginState

__all__ = ["Candidate", "PluginInfo", "PluginState", "Plugins", "find_candidates", "load_plugins"]
