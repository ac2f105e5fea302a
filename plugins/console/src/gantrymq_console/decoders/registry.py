"""Finds the decoder of a topic and runs it with a deadline.

A decoder runs in a thread of its own: the workers of the process are for the store of a broker, too, and a call that
does not return would keep one of them. While calls hang, the decoder is not called again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.world import Clock
from gantrymq_console.decoders import GROUP, Decoder

DEADLINE_S: Final = 2.0
MOST_BYTES: Final = 4 * 1024 * 1024  # of a body
MOST_TEXT: Final = 1024 * 1024  # characters that are shown
_MOST_CALLS: Final = 4  # of a decoder at a time
_MOST_SENTENCE: Final = 300
_BUILT_IN: Final = {
    "protobuf": "gantrymq_console.decoders.protobuf:ProtobufDecoder",
    "avro": "gantrymq_console.decoders.avro:AvroDecoder",
}


@attrs.frozen
class Decoded:
    """The result of a decoder."""

    decoder: str
    text: str = attrs.field(default="", metadata={"json": False})
    is_cut: bool = False  # whether the text is longer
    problem: str = ""  # why there is no text


@attrs.define
class Rule:
    """A decoder and the topics that it decodes."""

    pattern: str
    name: str
    argument: str
    source: str  # distribution; empty for those of the console
    problem: str = ""  # why it cannot be used
    _decoder: Decoder | None = attrs.field(default=None, repr=False)
    _calls: int = 0

    @property
    def title(self) -> str:
        """Name for pages."""
        file = self.argument.rpartition("/")[2]
        return f"{self.name}:{file}" if file else self.name

    async def decode(self, clock: Clock, topic: str, body: bytes, properties: Mapping[str, str]) -> Decoded:
        """Return the decoded body, or a sentence if the decoder fails or does not return in `DEADLINE_S`."""
        decoder = self._decoder
        if decoder is None:
            return Decoded(self.title, problem=self.problem)
        if len(body) > MOST_BYTES:
            return Decoded(self.title, problem=f"the body is larger than {MOST_BYTES // 2**20} MiB")
        if self._calls >= _MOST_CALLS:
            return Decoded(self.title, problem="it has not returned from earlier bodies")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Decoded] = loop.create_future()

        def finish(result: Decoded) -> None:
            self._calls -= 1
            if not answer.done():
                answer.set_result(result)

        def work() -> None:
            result = self._run(decoder, topic, body, properties)
            with contextlib.suppress(RuntimeError):  # the console was stopped
                loop.call_soon_threadsafe(finish, result)

        def late() -> None:
            if not answer.done():
                answer.set_result(Decoded(self.title, problem=f"it did not return within {DEADLINE_S:g} seconds"))

        self._calls += 1
        timer = clock.call_later(DEADLINE_S, late)
        threading.Thread(target=work, name=f"gantrymq-decoder-{self.name}", daemon=True).start()
        try:
            return await answer
        finally:
            timer.cancel()

    def _run(self, decoder: Decoder, topic: str, body: bytes, properties: Mapping[str, str]) -> Decoded:
        try:
            found = decoder.decode(topic, body, properties)
            text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=_plain)
            shown = str(text[:MOST_TEXT])
            return Decoded(self.title, shown.encode("utf-8", "backslashreplace").decode(), len(text) > MOST_TEXT)
        except BaseException as problem:  # whatever it is, the page is shown
            return Decoded(self.title, problem=_sentence(problem))


class Decoders:
    """The decoders of a console, in the order in which they are tried: those of options, then those of plugins."""

    def __init__(self) -> None:
        """Create it without decoders; plugins are imported at the first use."""
        self._rules: list[Rule] = []
        self._found: dict[str, EntryPoint] | None = None
        self._all: tuple[Rule, ...] | None = None

    def configure(self, options: Iterable[str]) -> None:
        """Add the decoders of options ``TOPIC=NAME[:ARGUMENT]``.

        Raises:
            ConfigError: an option or its argument cannot be used.
        """
        for option in options:
            pattern, _, rest = option.partition("=")
            name, _, argument = rest.partition(":")
            if not (pattern and name):
                raise ConfigError(
                    f"--decoder {option}: write TOPIC=NAME:ARGUMENT, such as Orders=protobuf:shop.desc#Order"
                )
            try:
                factory, source = self._factory(name)
                self._rules.append(Rule(pattern, name, argument, source, decoder=factory(argument)))
            except Exception as problem:
                raise ConfigError(f"--decoder {option}: {_sentence(problem)}") from problem

    def _factory(self, name: str) -> tuple[Any, str]:
        built_in = _BUILT_IN.get(name)
        if built_in is not None:
            module, _, attribute = built_in.partition(":")
            return getattr(import_module(module), attribute), ""
        point = self._points().get(name)
        if point is None:
            known = ", ".join(sorted({*_BUILT_IN, *self._points()}))
            raise ConfigError(f"no decoder is named {name}; there are {known}")
        return point.load(), point.dist.name if point.dist is not None else "?"

    def _points(self) -> dict[str, EntryPoint]:
        if self._found is None:
            self._found = {each.name: each for each in entry_points(group=GROUP)}
        return self._found

    def rules(self) -> tuple[Rule, ...]:
        """Return all decoders, also those that cannot be used. Imports plugins: call it in a thread the first time."""
        if self._all is None:
            plugins = (each for name in sorted(self._points()) for each in self._of_plugin(name))
            self._all = (*self._rules, *plugins)
        return self._all

    def _of_plugin(self, name: str) -> list[Rule]:
        source = "?"
        try:
            factory, source = self._factory(name)
            patterns = [str(each) for each in getattr(factory, "topics", ())]
            made = factory("") if patterns else None
        except BaseException as problem:  # a plugin takes no page down
            return [Rule("", name, "", source, _sentence(problem))]
        return [Rule(each, name, "", source, decoder=made) for each in patterns]

    def of(self, topic: str) -> Rule | None:
        """Return the decoder of *topic*, or None."""
        return next((each for each in self.rules() if fnmatchcase(topic, each.pattern)), None)


def _plain(value: Any) -> str:
    """Return a value for JSON that has no form there, such as a time or a decimal number."""
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _sentence(problem: BaseException) -> str:
    """Return one line for an error."""
    if isinstance(problem, ModuleNotFoundError):
        return f"the package {problem.name} is not installed"
    if isinstance(problem, OSError) and problem.filename is not None and problem.strerror:
        return f"{problem.filename}: {problem.strerror}"[:_MOST_SENTENCE]
    text = " ".join(str(problem).split())[:_MOST_SENTENCE]
    plain = isinstance(problem, ConfigError | ValueError) and text
    return text if plain else f"{type(problem).__name__}: {text}" if text else type(problem).__name__
