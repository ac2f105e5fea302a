"""Settings that a plugin declares, and the values that a server has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.config import HIDDEN as HIDDEN
    from gantrymq.config import NO_HOME as NO_HOME
    from gantrymq.config import Kind as Kind
    from gantrymq.config import Setting as Setting
    from gantrymq.config import Settings as Settings
    from gantrymq.config import Value as Value
    from gantrymq.config import home_folder as home_folder
    from gantrymq.settings_file import properties_text as properties_text
    from gantrymq.settings_load import BROKER_DEFAULTS as BROKER_DEFAULTS
    from gantrymq.settings_load import NAME_SERVER_DEFAULTS as NAME_SERVER_DEFAULTS
    from gantrymq.settings_load import nearest as nearest
    from gantrymq.settings_load import runtime_changes as runtime_changes
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.config": "HIDDEN Kind NO_HOME Setting Settings Value home_folder",
            "gantrymq.settings_file": "properties_text",
            "gantrymq.settings_load": "BROKER_DEFAULTS NAME_SERVER_DEFAULTS nearest runtime_changes",
        },
    )
