"""One HTML file: sentences, tables, plots; nothing outside it is needed."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

__all__ = ["Section", "page"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title><style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: .6rem 0; font-size: 13px } td, th { padding: .25rem .6rem; text-align: left;
border-bottom: 1px solid #ddd; vertical-align: top } th { background: #f5f5f5 } svg { max-width: 100%; height: auto }
.note { color: #666 }
</style></head><body>
<h1>{{ title }}</h1>
{% for sentence in sentences %}<p>{{ sentence }}</p>
{% endfor %}{% for section in sections %}<h2>{{ section.title }}</h2>
{% for sentence in section.sentences %}<p>{{ sentence }}</p>
{% endfor %}{% for plot in section.plots %}{{ plot | safe }}
{% endfor %}{% if section.rows %}<table><thead><tr>{% for name in section.columns %}<th>{{ name }}</th>{% endfor %}</tr>
</thead><tbody>{% for row in section.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>{% endif %}
{% if section.left_out %}<p class="note">{{ section.left_out }} more rows are not shown here.</p>{% endif %}
{% endfor %}</body></html>
"""


@attrs.frozen
class Section:
    """A part of the page."""

    title: str
    sentences: Sequence[str] = ()
    plots: Sequence[str] = ()  # SVG
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    left_out: int = 0  # rows that are not shown


def page(title: str, sentences: Sequence[str], sections: Sequence[Section]) -> str:
    """The file's text. Everything but plots is escaped."""
    from jinja2 import Environment

    return Environment(autoescape=True).from_string(_PAGE).render(title=title, sentences=sentences, sections=sections)
