"""Settings of the console inside a broker's process."""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.settings import Setting

LISTEN: Final = "consoleListen"

SCHEMA: Final = (
    Setting.text(
        LISTEN,
        "",
        "Address and port of the web console in the broker's process, such as 127.0.0.1:8088; empty: none. "
        "`gantrymq console` runs it in a process of its own.",
    ),
)
