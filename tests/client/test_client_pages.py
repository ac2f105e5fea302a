"""The client's pages use existing names; pages for users of other clients cover all names of those clients."""

import inspect
import re
from pathlib import Path

import pytest

import gantrymq.client as library
from gantrymq.client.calls.connection_config import ConnectOptions
from gantrymq.client.group.settings import LitePullOptions
from gantrymq.client.pop.consumer import PopOptions
from gantrymq.client.producing.producer import ProducerOptions
from gantrymq.client.reading.reader import ReaderOptions

DOCS = Path(__file__).resolve().parents[2] / "docs/client"
DATA = Path(__file__).parent / "data"
JAVA = dict(line.split(": ", 1) for line in (DATA / "java_names-5.3.3.txt").read_text().splitlines())
KAFKA = dict(line.split(": ", 1) for line in (DATA / "kafka_names-3.0.12.txt").read_text().splitlines())
OURS = {
    "client": library.Client,
    "producer": library.TransactionProducer,
    "consumer": library.Consumer,
    "lite_pull": library.LitePullConsumer,
    "reader": library.Reader,
    "admin": library.Admin,
    "result": library.SendResult,
    "transaction": library.Transaction,
    "message": library.ReceivedMessage,
    "pulled": library.PullResult,
}
MADE = (
    *OURS.values(),
    *(library.PopConsumer, library.Message, library.Batching, library.MessageTrace),
    *(library.TlsClient, library.TopicConfig, library.Credentials),
)
CALLS = [
    call
    for each in MADE
    for _, call in inspect.getmembers(each, inspect.isroutine)
    if not hasattr(object, call.__name__)
]
OPTIONS = {
    *(
        name
        for each in (ConnectOptions, LitePullOptions, PopOptions, ProducerOptions, ReaderOptions)
        for name in each.__annotations__
    ),
    *(name for call in (*CALLS, *(each.__init__ for each in MADE)) for name in inspect.signature(call).parameters),
}


def rows(page):
    """Section, cells of the row."""
    section = ""
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| Java |"):
            yield section, re.split(r"(?<!\\) \| ", line.strip("| "))


def spans(text):
    return re.findall(r"`([^`]+)`", text)


def named_in(page):
    """Section to the names in the first column of its tables."""
    found = {}
    for section, cells in rows(page):
        found.setdefault(section, set()).update(spans(cells[0]))
    return found


@pytest.mark.parametrize("java", JAVA)
def test_every_method_of_java_has_its_row(java):
    found = named_in("from-java.md")
    there, named = set(JAVA[java].split()), found[java]
    setters = {name[3:] for name in there & named if name.startswith("set")}
    covered = {*named, *found["All classes"], *(f"{get}{name}" for name in setters for get in ("get", "is"))}
    assert sorted(there - covered) == [], f"names of Java's {java} that docs/client/from-java.md does not have"
    assert sorted(named - there) == [], f"names on docs/client/from-java.md that Java's {java} does not have"


@pytest.mark.parametrize("kafka", KAFKA)
def test_every_method_and_option_of_kafka_python_has_its_row(kafka):
    missing = set(KAFKA[kafka].split()) - named_in("from-others.md")[kafka]
    assert sorted(missing) == [], f"names of kafka-python's {kafka} that docs/client/from-others.md does not have"


def test_each_row_says_what_is_here():
    for section, cells in rows("from-java.md"):
        assert len(cells) == 2, (section, cells)
        assert cells[1].strip(), (section, cells)


@pytest.mark.parametrize("page", ["from-java.md", "from-others.md"])
def test_what_a_row_names_is_here(page):
    found = [(section, *unknown_in(span)) for section, cells in rows(page) for span in spans(cells[-1])]
    assert [each for each in found if len(each) > 1] == []


GUIDES = ("README", "producing", "consuming", "reading", "connecting", "admin", "tracing", "sync")
OF_OTHERS = {"nofix=", "type=", "admin.py", "message.type"}  # an address server's, attributes of topics, a file


@pytest.mark.parametrize("page", GUIDES)
def test_what_the_clients_pages_name_is_here(page):
    text = (DOCS / f"{page}.md").read_text()
    fragments = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    quoted = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    assert {name for span in (*fragments, *quoted) for name in unknown_in(span)} - OF_OTHERS == set()


def unknown_in(span):
    """Return attributes, options and classes in a code span that do not exist in the client."""
    found = [
        f"{owner}.{name}"
        for owner, name in re.findall(r"\b(\w+)\.(\w+)", span)
        if owner in OURS and not any(hasattr(each, name) or name in annotations(each) for each in kinds(owner))
    ]
    found += [f"{name}=" for name in re.findall(r"\b([a-z_]+)=(?!=)", span) if name not in OPTIONS]
    return found + [name for name in re.findall(r"^([A-Z][a-z]\w+)\(", span) if not exported(name)]


def kinds(owner):
    return (OURS["consumer"], OURS["lite_pull"], library.PopConsumer) if owner == "consumer" else (OURS[owner],)


def exported(name):
    return hasattr(library, name) or name == "OpenTelemetry"


def annotations(thing):
    """Return fields and constructor parameters."""
    found = {name for base in thing.__mro__ for name in getattr(base, "__annotations__", {})}
    for base in thing.__mro__:
        if base.__module__.startswith("gantrymq") and "__init__" in vars(base) and not hasattr(base, "__attrs_attrs__"):
            found.update(re.findall(r"self\.([a-z]\w*)", inspect.getsource(base.__init__)))
    return found
