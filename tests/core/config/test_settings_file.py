"""Properties files, read as java.util.Properties reads them."""

from pathlib import Path

import pytest

from gantrymq.errors import ConfigError
from gantrymq.settings_file import parse_properties, properties_text, read_settings_file


class OneFile:
    """A `Files` with one file in it."""

    def __init__(self, raw):
        self.raw = raw

    def read(self, path):
        if self.raw is None:
            raise FileNotFoundError(2, "No such file or directory")
        return self.raw


def pairs(text):
    return [(line.key, line.value) for line in parse_properties(text, "broker.conf")]


@pytest.mark.parametrize(
    "line",
    [
        "brokerName=a",
        "brokerName = a",
        "brokerName:a",
        "brokerName : a",
        "brokerName a",
        "  brokerName\t=\ta",
        "brokerName\fa",
    ],
)
def test_equals_sign_colon_and_blanks_separate(line):
    assert pairs(line) == [("brokerName", "a")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \t\n", []),
        ("# a=b\n! c=d\n  # e=f\n", []),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a==b", [("a", "=b")]),
        ("a = : b", [("a", ": b")]),
        ("a=b # no comment", [("a", "b # no comment")]),
        ("a=b  ", [("a", "b  ")]),
        ("a=1\rb=2\r\nc=3\nd=4", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_lines_comments_and_values(text, expected):
    assert pairs(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b,\\\n   c,\\\r\n\td", [("a", "b,c,d")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\\\\\nc", [("a", "b\\c")]),
        ("a=b\\\n# still the value", [("a", "b# still the value")]),
        ("a=b\\\n\nc=d", [("a", "b"), ("c", "d")]),
        ("a=b\\", [("a", "b")]),
        ("\\\n\na=b", [("a", "b")]),
    ],
)
def test_an_odd_number_of_backslashes_joins_lines(text, expected):
    assert pairs(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=\\t\\n\\r\\f", ("a", "\t\n\r\f")),
        ("a=\\u0041\\u00e9", ("a", "Aé")),
        ("a=\\uD83D\\uDE00", ("a", "😀")),
        ("a=C:\\\\store", ("a", "C:\\store")),
        ("a=\\q\\=\\:", ("a", "q=:")),
        ("a\\ b\\=c=d", ("a b=c", "d")),
        ("a=\\ b", ("a", " b")),
    ],
)
def test_escapes(text, expected):
    assert pairs(text) == [expected]


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uXYZW", "ok=1\na=\\u"])
def test_a_malformed_escape_names_the_line(text):
    with pytest.raises(ConfigError, match=rf"broker.conf line {text.count(chr(10)) + 1}: .* is not an escape"):
        pairs(text)


def test_lines_are_numbered_from_their_first():
    assert [line.number for line in parse_properties("# x\na=1\\\n2\n\nb=3", "f")] == [2, 5]


def test_a_file_is_read_as_utf_8():
    (line,) = read_settings_file(OneFile("brokerName=Köln\n".encode()), Path("broker.conf"))
    assert (line.key, line.value) == ("brokerName", "Köln")


def test_a_file_that_is_not_utf_8_is_read_as_java_reads_every_file():
    (line,) = read_settings_file(OneFile("brokerName=Köln\n".encode("iso-8859-1")), Path("broker.conf"))
    assert line.value == "Köln"


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    (line,) = read_settings_file(OneFile(b"\xef\xbb\xbfa=b"), Path("broker.conf"))
    assert line.key == "a"


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        ("brokerName=a\n".encode("utf-16"), "UTF-16"),
        ("brokerName=a\n".encode("utf-16-be"), "UTF-16"),
        ("brokerName=a\n".encode("utf-16-le"), "UTF-16"),
        (b"\xfe\xff" + "Köln=港".encode("utf-16-be"), "UTF-16"),
        (b"\x7fELF\x02\x01\x01\x00 and much more text", "not text"),
    ],
)
def test_a_file_that_is_no_utf_8_text_is_named_as_what_it_is(raw, what):
    with pytest.raises(ConfigError, match=f"the settings file broker.conf is {what}; save it as UTF-8"):
        read_settings_file(OneFile(raw), Path("broker.conf"))


@pytest.mark.parametrize(
    ("text", "number", "word"),
    [
        ('{"key": 1}\n{"key": 2}\n', 1, '{"key"'),
        ("brokerName=a\n[section]\n", 2, "[section]"),
        ("brokerName=a\n\n=1\n", 3, ""),
        ("brokerName=a\n<xml>\n", 2, "<xml>"),
        ("--set brokerName=a\n", 1, "--set"),
        ("brokerName=a\n" + "ä-" * 100, 2, "ä-" * 20),
    ],
)
def test_a_line_that_is_no_setting_is_named(text, number, word):
    with pytest.raises(ConfigError) as caught:
        read_settings_file(OneFile(text.encode()), Path("broker.conf"))
    assert str(caught.value) == (
        f"broker.conf line {number}: {word!r} is not a setting; a settings file has lines such as brokerName=broker-a"
    )


def test_a_line_says_whether_it_has_a_separator():
    lines = parse_properties("a=1\nb:2\nc 3\nd\ne =\n", "f")
    assert [line.key for line in lines if line.bare] == ["c", "d"]


def test_a_missing_file_is_one_sentence():
    with pytest.raises(ConfigError, match="cannot read the settings file broker.conf: No such file or directory"):
        read_settings_file(OneFile(None), Path("broker.conf"))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        " a b ",
        "C:\\store\\",
        "x\nkvConfigPath=/elsewhere",
        "\t\r\f\\n",
        "# ! = :",
        "中é😀\x00\x7f",
        "\udc80",
    ],
)
def test_what_is_written_reads_as_what_it_was_and_as_nothing_else(value):
    text = properties_text({"a key": value, "after": True})
    assert text.isascii()
    assert pairs(text) == [
        ("a key", value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")),
        ("after", "true"),
    ]
    assert len(text.splitlines()) == 2
