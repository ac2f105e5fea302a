"""Decoders of bodies by topic: options, plugins, Protobuf and Avro; none of them takes a page down."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import io
import json
import struct
import sys
import threading
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from console_visitor import Visitor

from gantrymq.errors import ConfigError
from gantrymq_console.access.users import Role
from gantrymq_console.commands.console import console
from gantrymq_console.decoders import registry
from gantrymq_console.decoders.registry import MOST_BYTES, MOST_TEXT, Decoders

MIB = 1024 * 1024
HTML = "<script>alert(1)</script>\"'&"


class Point:
    """An entry point of a distribution."""

    dist = SimpleNamespace(name="my-decoders")

    def __init__(self, name, loaded):
        self.name = name
        self._loaded = loaded

    def load(self):
        if isinstance(self._loaded, BaseException):
            raise self._loaded
        return self._loaded


def decoder(work, topics=("Orders",)):
    """Return what an entry point names."""

    class Made:
        def __init__(self, argument):
            self.argument = argument

        def decode(self, topic, body, properties):
            return work(topic, body, properties)

    Made.topics = topics
    return Made


@pytest.fixture
def plugins(monkeypatch):
    """A table of entry points, instead of those that are installed."""
    found = {}
    monkeypatch.setattr(registry, "entry_points", lambda group: [Point(*each) for each in found.items()])
    return found


@pytest.fixture
def shown(visitor):
    """Return the page and the JSON of a message with a body."""

    def show(body=b"\x01\x02", topic="Orders", query="", **more):
        sent = visitor.running.send(topic, body, **more)
        path = f"/messages/{sent.message_id}?topic={topic}{query}"
        return visitor.get(path), visitor.api(path)["data"]

    return show


def test_without_decoders_nothing_changes(plugins, shown, visitor):
    page, data = shown(b"plain")
    assert data["decoder"] is None and data["body"]["form"] == "text" and "Decoded" not in page.text
    assert "None. The option --decoder" in visitor.get("/about").text
    assert shown(b"\xff", query="&form=decoded")[1]["body"]["form"] == "hex"


def test_a_plugin_decodes_the_topics_that_it_names(plugins, shown, visitor):
    def work(topic, body, properties):
        return {"topic": topic, "size": len(body), "big": 2**63, "note": properties["note"], "html": HTML}

    plugins["orders"] = decoder(work, ("ord*", "Ord*"))
    page, data = shown(properties={"note": "n"})
    assert page.status == 200 and "Decoded by orders." in page.text and "<script>" not in page.response.text
    assert data["body"]["form"] == "decoded" and json.loads(data["body"]["text"])["big"] == 2**63
    assert '<span class="n">9223372036854775808</span>' in page.response.text
    assert shown(topic="Other")[1]["decoder"] is None
    _, raw = shown(query="&form=hex")
    assert raw["body"]["form"] == "hex" and raw["body"]["text"].startswith("00000000  01 02")
    about = visitor.get("/about")
    assert "my-decoders" in about.text and "ord*" in about.text and "ready" in about.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text <b>", "text <b>"),
        ([1.5, None, True], "[\n  1.5,\n  null,\n  true\n]"),
        (b"\x00\xff", '"AP8="'),
        (
            {"at": datetime.date(2026, 1, 2), "sum": decimal.Decimal("1.10")},
            '{\n  "at": "2026-01-02",\n  "sum": "1.10"\n}',
        ),
        ("lone \ud800", "lone \\ud800"),
        (float("nan"), "NaN"),
    ],
)
def test_what_a_decoder_may_return(plugins, shown, value, text):
    plugins["d"] = decoder(lambda *_: value)
    page, data = shown()
    assert page.status == 200 and data["body"]["text"] == text and not data["decoder"]["problem"]
    assert "<b>" not in page.response.text


def raised(problem):
    def work(*_):
        raise problem

    return work


def deep():
    found = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (raised(ValueError(HTML)), HTML),
        (raised(KeyError("a")), "KeyError: 'a'"),
        (raised(SystemExit(1)), "SystemExit"),
        (raised(MemoryError()), "MemoryError"),
        (raised(ValueError("x\n" * 10_000)), "x x x"),
        (lambda *_: {1, 2}, None),
        (lambda *_: {(1, 2): 3}, "TypeError: keys must be str"),
        (lambda *_: deep(), "RecursionError"),
    ],
)
def test_a_decoder_that_fails_is_a_sentence_and_the_body_is_shown(plugins, shown, work, sentence):
    plugins["d"] = decoder(work)
    page, data = shown(b"the body")
    assert page.status == 200 and "<script>" not in page.response.text
    if sentence is None:
        return
    assert "d did not decode the body" in page.text and sentence in page.text
    assert data["body"]["text"] == "the body" and len(data["decoder"]["problem"]) < 350


def test_a_decoder_that_hangs_costs_two_seconds_and_few_threads(plugins, shown, monkeypatch):
    monkeypatch.setattr(registry, "DEADLINE_S", 0.05)
    go = threading.Event()
    plugins["d"] = decoder(lambda *_: "late" if go.wait(60) else "never")
    before = threading.active_count()
    try:
        for _ in range(3):
            page, _ = shown(b"the body")
            assert page.status == 200 and "the body" in page.text
        assert "it has not returned from earlier bodies" in page.text
        assert threading.active_count() <= before + registry._MOST_CALLS + 1
    finally:
        go.set()


def test_it_is_used_again_after_it_has_returned(plugins, shown, monkeypatch):
    from polling import wait_until

    monkeypatch.setattr(registry, "DEADLINE_S", 0.05)
    go = threading.Event()
    plugins["d"] = decoder(lambda *_: "decoded" if go.wait(60) else "never")
    assert "did not return within" in shown()[0].text
    go.set()
    monkeypatch.setattr(registry, "DEADLINE_S", 60.0)
    wait_until(lambda: shown()[1]["body"]["text"] == "decoded", "decoder that works again")


def test_megabytes_are_shown_in_part(plugins, shown):
    plugins["d"] = decoder(lambda *_: "x" * (20 * MIB))
    tracemalloc.start()
    try:
        page, data = shown()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert page.status == 200 and "The first 1 MiB of the text is shown" in page.text
    assert len(data["body"]["text"]) == MOST_TEXT and peak < 60 * MIB


def test_compressed_bodies_are_decoded_whole_up_to_a_limit(plugins, shown):
    plugins["d"] = decoder(lambda _, body, __: str(len(body)))
    assert shown(bytes(2 * MIB))[1]["body"]["text"] == str(2 * MIB)
    page, data = shown(bytes(MOST_BYTES - 1000))
    assert data["body"]["text"] == str(MOST_BYTES - 1000)
    assert page.status == 200


def test_larger_bodies_are_not_given_to_a_decoder(plugins):
    plugins["d"] = decoder(raised(AssertionError()))
    found = asyncio.run(Decoders().of("Orders").decode(None, "Orders", bytes(MOST_BYTES + 1), {}))
    assert "larger than 4 MiB" in found.problem


def test_retries_and_dead_letters_have_the_decoder_of_their_topic(plugins, shown):
    plugins["d"] = decoder(lambda topic, *_: f"of {topic}")
    _, data = shown(topic="Copies", properties={})
    assert data["decoder"] is None
    from gantrymq_console.pages.message import _topic_of

    message = SimpleNamespace(topic="%DLQ%g", properties={"RETRY_TOPIC": "Orders", "REAL_TOPIC": "%DLQ%g"})
    assert _topic_of(message) == "Orders"


@pytest.mark.parametrize(
    ("loaded", "problem"),
    [
        (ModuleNotFoundError("No module named 'x'", name="x"), "the package x is not installed"),
        (SyntaxError("bad"), "SyntaxError: bad"),
        (SimpleNamespace(topics=("a",)), "TypeError"),
        (SystemExit(), "SystemExit"),
    ],
)
def test_a_broken_plugin_is_told_on_the_about_page(plugins, shown, visitor, loaded, problem):
    plugins["broken"], plugins["d"] = loaded, decoder(lambda *_: "works")
    _, data = shown()
    assert data["body"]["text"] == "works"
    about = visitor.get("/about")
    assert about.status == 200 and problem in about.text


def test_a_viewer_gets_no_decoded_body(plugins, gantrymq_broker):
    plugins["d"] = decoder(raised(AssertionError("called")))
    sent = gantrymq_broker.send("Orders", b"secret")
    with Visitor(gantrymq_broker, Role.VIEWER) as viewer:
        assert viewer.api(f"/messages/{sent.message_id}?topic=Orders")["data"]["decoder"] is None


# --- options ---


def test_an_option_is_before_plugins_and_has_an_argument(plugins):
    seen = []

    class Named:
        topics = ("*",)

        def __init__(self, argument):
            seen.append(argument)

        def decode(self, topic, body, properties):
            return ""

    plugins["named"] = Named
    decoders = Decoders()
    decoders.configure(["Orders=named:C:\\a#b=c", "x-*=named"])
    assert seen == ["C:\\a#b=c", ""]
    assert [each.pattern for each in decoders.rules()] == ["Orders", "x-*", "*"]
    assert decoders.of("x-1").pattern == "x-*" and decoders.of("y").pattern == "*"


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("Orders", "write TOPIC=NAME:ARGUMENT"),
        ("=protobuf:x#Y", "write TOPIC=NAME:ARGUMENT"),
        ("Orders=nothing:x", "no decoder is named nothing; there are avro, protobuf"),
        ("Orders=protobuf:x.desc", "write FILE#TYPE"),
        (
            "Orders=protobuf:/no/such.desc#Y",
            "--decoder Orders=protobuf:/no/such.desc#Y: /no/such.desc: No such file or",
        ),
        ("Orders=avro:/no/such.avsc", "--decoder Orders=avro:/no/such.avsc: /no/such.avsc: No such file or directory"),
        ("Orders=avro:/", "--decoder Orders=avro:/: /: Is a directory"),
        ("Orders=avro:x#y", "write FILE or FILE#BYTES"),
    ],
)
def test_options_that_cannot_be_used_stop_the_start(plugins, option, sentence):
    for name in ("google.protobuf", "fastavro"):
        pytest.importorskip(name)
    with pytest.raises(ConfigError, match="--decoder") as caught:
        Decoders().configure([option])
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("name", "module"), [("protobuf", "google.protobuf"), ("avro", "fastavro")])
def test_a_missing_package_is_named_with_the_command(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"pip install {module.removeprefix('google.')}"):
        Decoders().configure([f"Orders={name}:file#1"])


def test_the_command_ends_with_a_sentence(tmp_path):
    options = ["--decoder", "Orders=nothing:x", "--state", str(tmp_path), "--no-login"]
    done = CliRunner().invoke(console, options)
    assert done.exit_code != 0 and "no decoder is named nothing" in str(done.exception) + done.output


# --- Protobuf and Avro ---


@pytest.fixture
def descriptors(tmp_path):
    """A set of descriptors as protoc writes it, and the class of shop.Order."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    whole = descriptor_pb2.FileDescriptorSet()
    common = whole.file.add(name="common.proto", package="shop", syntax="proto3")
    money = common.message_type.add(name="Money")
    money.field.add(name="cents", number=1, type=3, label=1)  # int64
    shop = whole.file.add(name="shop.proto", package="shop", syntax="proto3", dependency=["common.proto"])
    order = shop.message_type.add(name="Order")
    order.field.add(name="order_id", number=1, type=9, label=1)  # string
    order.field.add(name="total", number=2, type=11, label=1, type_name=".shop.Money")
    order.field.add(name="parts", number=3, type=11, label=3, type_name=".shop.Order")
    pool = descriptor_pool.DescriptorPool()
    for each in whole.file:
        pool.Add(each)
    path = tmp_path / "shop.desc"
    path.write_bytes(whole.SerializeToString())
    return path, message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order")), whole


def protobuf(path, kind="shop.Order"):
    decoders = Decoders()
    decoders.configure([f"Orders=protobuf:{path}#{kind}"])
    return decoders.of("Orders")._decoder


def test_protobuf(descriptors):
    path, order, _ = descriptors
    body = order(order_id="<b>4711", total={"cents": 2**60}, parts=[{"order_id": "a"}]).SerializeToString()
    assert protobuf(path).decode("Orders", body, {}) == {
        "order_id": "<b>4711",
        "total": {"cents": str(2**60)},
        "parts": [{"order_id": "a"}],
    }
    assert protobuf(path).decode("Orders", b"\x48\x01" + body, {})["(unknown fields)"] == [9]
    assert protobuf(path, "shop.Money").decode("Orders", b"", {}) == {}


def test_protobuf_of_hostile_bodies(descriptors):
    path, order, _ = descriptors
    nested = order(order_id="x")
    data = nested.SerializeToString()
    for _ in range(300):
        data = b"\x1a" + _varint(len(data)) + data
    decoders = Decoders()
    decoders.configure([f"Orders=protobuf:{path}#shop.Order"])
    for body in (data, b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xfe"):
        found = decoders.of("Orders")._run(decoders.of("Orders")._decoder, "Orders", body, {})
        assert "DecodeError" in found.problem and not found.text


def _varint(number):
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def test_descriptors_that_cannot_be_used(descriptors, tmp_path):
    path, _, whole = descriptors
    with pytest.raises(ConfigError, match=r"no message type shop\.Nothing .* it has shop\.Money, shop\.Order"):
        protobuf(path, "shop.Nothing")
    broken = tmp_path / "broken.desc"
    broken.write_bytes(b"\xff" * 10)
    with pytest.raises(ConfigError, match="is not a set of descriptors"):
        protobuf(broken)
    del whole.file[0]  # as without --include_imports
    broken.write_bytes(whole.SerializeToString())
    with pytest.raises(ConfigError, match="--include_imports"):
        protobuf(broken)


def test_avro(tmp_path):
    fastavro = pytest.importorskip("fastavro")
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
    }
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(schema))
    record = {"id": 2**60, "note": "<b>"}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, record)
    container = io.BytesIO()
    fastavro.writer(container, schema, [record, record])
    decoders = Decoders()
    decoders.configure([f"Orders=avro:{path}", f"Registry=avro:{path}#5"])
    plain, skipping = (decoders.of(each)._decoder for each in ("Orders", "Registry"))
    assert plain.decode("Orders", body.getvalue(), {}) == record
    assert plain.decode("Orders", container.getvalue(), {}) == [record, record]
    assert skipping.decode("Registry", b"\0\0\0\0\7" + body.getvalue(), {}) == record
    with pytest.raises(ValueError, match="3 bytes are left"):
        plain.decode("Orders", body.getvalue() + b"abc", {})
    with pytest.raises(ValueError, match=r"5 bytes of a schema registry: use the decoder avro:.*order\.avsc#5"):
        plain.decode("Orders", b"\0\0\0\0\7" + body.getvalue(), {})
    for other in (b"\0\0\0\0\7" + body.getvalue() + b"abc", b"\1\0\0\0\7" + body.getvalue()):
        with pytest.raises(Exception, match="^(?!.*registry)"):  # of the library
            plain.decode("Orders", other, {})
    for hostile in (b"", b"\xff" * 20, body.getvalue()[:-1], b"Obj\x01junk"):
        with pytest.raises(Exception):  # noqa: B017  # of the library; pages show it as a sentence
            plain.decode("Orders", hostile, {})
    path.write_text('{"type": "nothing"}')
    for codec, other, sentence in (
        ("deflate", schema, "compressed, with codec deflate, is not read"),
        ("null", fastavro.parse_schema({"type": "array", "items": "null"}), "is another one"),
    ):
        bomb = io.BytesIO()
        fastavro.writer(bomb, other, [record if other is schema else [None] * 1000], codec=codec)
        with pytest.raises(ValueError, match=sentence):
            plain.decode("Orders", bomb.getvalue(), {})
    with pytest.raises(ConfigError, match="is not a schema of Avro"):
        Decoders().configure([f"Orders=avro:{path}"])


def test_protobuf_on_the_page(descriptors, visitor):
    path, order, _ = descriptors
    visitor.console.decoders.configure([f"Orders=protobuf:{path}#shop.Order"])
    sent = visitor.running.send("Orders", order(order_id="<b>4711").SerializeToString())
    page = visitor.get(f"/messages/{sent.message_id}?topic=Orders")
    assert "Decoded by protobuf:shop.desc#shop.Order." in page.text and str(path.parent) not in page.text
    assert "&lt;b&gt;4711" in page.response.text and "<b>" not in page.response.text


def test_the_example_of_the_documentation_works(plugins, shown):
    page = (Path(__file__).parents[2] / "docs" / "plugins" / "decoders.md").read_text("utf-8")
    names: dict[str, object] = {}
    exec(page.partition("```python")[2].partition("```")[0], names)
    plugins["orders"] = names["OrderDecoder"]
    _, data = shown(struct.pack(">QI", 2**60, 1999), topic="orders-eu")
    assert json.loads(data["body"]["text"]) == {"number": 2**60, "total": "19.99 EUR"}
    assert "unpack requires a buffer of 12 bytes" in shown(b"x", topic="orders-eu")[0].text
