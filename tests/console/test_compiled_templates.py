"""Templates compiled with direct calls give the same HTML as Jinja's own compiler."""

from __future__ import annotations

import jinja2
import pytest
from markupsafe import Markup

from gantrymq_console.web.render import compile_template, environment, templates

PARTS = """
{% macro row(name, number=1, title="") %}<td title="{{ title }}">{{ name }}={{ number }}</td>{% endmacro %}
{% macro around(name) %}<p>{{ caller(name) }}</p>{% endmacro %}
{% macro all() %}{{ varargs|join(",") }}{{ kwargs["class"] }}{% endmacro %}
"""
BASE = "{% block main %}base {{ shown('<a>') }}{% endblock %}"
PAGE = """{% extends "base.html" %}
{% import "parts.html" as parts with context %}
{% block main %}{{ super() }}
{% for each in rows %}{{ loop.cycle("odd", "even") }} {{ parts.row(each, title=each, **more) }}{% endfor %}
{% call(name) parts.around(*rows[:1]) %}<b>{{ name }}</b>{% endcall %}
{{ parts.all(1, "<2>", class="x") }} {{ markup }} {{ none }} {{ 1.5 }} {{ true }} {{ rows|length }} {{ plain|safe }}
{% autoescape false %}{{ shown(plain) }} {{ plain }}{% endautoescape %}
{% set kept %}{{ plain }}{% endset %}{{ kept }} {{ shown(rows.index(rows[1])) }} {{ plain.upper() ~ markup }}
{% endblock %}"""
VALUES = {
    "rows": ["<&>", "b'\"", "ünï"],
    "more": {"number": 7},
    "markup": Markup("<i>&amp;</i>"),
    "plain": "<script>&",
    "shown": lambda value: value,
}


def rendered(kind):
    made = kind(
        loader=jinja2.DictLoader({"parts.html": PARTS, "base.html": BASE, "page.html": PAGE}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        extensions=["jinja2.ext.do"],
    )
    return made.get_template("page.html").render(**VALUES)


def test_direct_calls_give_the_same_html():
    found = rendered(type(environment()))
    assert found == rendered(jinja2.Environment)
    assert "&lt;&amp;&gt;=7" in found and "<i>&amp;</i>" in found and "&lt;2&gt;" in found


@pytest.mark.parametrize("template", ["{{ unknown() }}", "{{ {}.unknown() }}", "{{ unknown }}"])
def test_an_unknown_name_is_an_error(template):
    with pytest.raises(jinja2.UndefinedError):
        environment().from_string(template).render()


def test_no_function_of_the_templates_wants_the_context():
    """Direct calls pass none."""
    assert not [name for name, each in environment().globals.items() if hasattr(each, "jinja_pass_arg")]


def test_all_templates_are_compiled_those_of_the_first_page_first():
    names = templates()
    assert sorted(names) == sorted(environment().list_templates(["html"]))
    assert set(names[:6]) == {"base.html", "bare.html", "_banners.html", "_command.html", "_parts.html", "home.html"}
    for name in names:
        compile_template(name)
