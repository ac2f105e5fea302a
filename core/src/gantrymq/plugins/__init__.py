"""The plugin kernel: finds installed plugins, calls every hook once, and provides the registered objects.

    entry points of group "gantrymq"  ->  discover  ->  load (pluggy, hooks)  ->  Plugins

Settings select the store, transaction service and strategies by name; the order of loading has no effect.
"""

from gantrymq.plugins.discover import Candidate, find_candidates
from gantrymq.plugins.load import load_plugins
from gantrymq.plugins.loaded import PluginInfo, Plugins, PluginState

__all__ = ["Candidate", "PluginInfo", "PluginState", "Plugins", "find_candidates", "load_plugins"]
