"""The broker's settings with their declarations and sources (65026), for tools that explain or change them."""

from __future__ import annotations

import json
from typing import Any

from gantrymq.plugin.model import Action
from gantrymq.plugin.remoting import Command, Connection, response_to, serves
from gantrymq.plugin.settings import BROKER_DEFAULTS, Setting, Settings
from gantrymq_diagnosis.operators.requests import BrokerRequests
from gantrymq_diagnosis.service import EXPLAINED_SETTINGS


class SettingsRequests(BrokerRequests):
    """Handler for the explained settings of one broker."""

    @serves(EXPLAINED_SETTINGS, action=Action.GET)
    def explained(self, asked: Command, connection: Connection) -> Command:
        """65026: return all settings except those that only the operator of the host may read; secrets are masked.

        Raises:
            ServiceNotAvailable: the broker is stopping.
        """
        settings = self._broker.settings
        found = [_explained(settings, settings.schema[key], value) for key, value in settings.shown().items()]
        return response_to(asked, 0, None, None, json.dumps({"settings": found}).encode())


def _explained(settings: Settings, setting: Setting, value: object) -> dict[str, Any]:
    return {
        "key": setting.key,
        "value": _text(value),
        "default": "" if setting.secret else _text(setting.default),
        "rocketmq_default": BROKER_DEFAULTS.get(setting.key),
        "source": settings.source(setting.key),
        "help": setting.help,
        "kind": setting.kind,
        "choices": list(setting.choices),
        "at_least": setting.at_least,
        "at_most": setting.at_most,
        "runtime": setting.runtime,
        "secret": setting.secret,
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
