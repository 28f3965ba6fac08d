"""The OpenAPI document as a page for people: whole as it is served, without a script. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

DocumentPart = Mapping[str, Any]

_HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff }
h2 { border-top: 1px solid #ccc; padding-top: 1rem } h3 { margin-bottom: .2rem }
code, pre { font: 14px/1.4 ui-monospace, monospace; background: #f4f4f4; border-radius: 4px }
code { padding: .1rem .3rem } pre { padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% }
th, td { border: 1px solid #ddd; padding: .3rem .5rem; text-align: left; vertical-align: top }
b { color: #14532d }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616 } code, pre { background: #262626 }
  th, td { border-color: #444 } b { color: #86efac } a { color: #93c5fd }
}
</style>
"""
_REFERENCE = re.compile(r"&quot;#/components/schemas/([\w.-]+)((?:/[^&]*)?)&quot;")


def page_of(document: DocumentPart) -> str:
    """Return the page of a document."""
    info = document["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}"
    return "\n".join(
        [
            _HEAD.replace("{title}", title),
            f"<h1>{title}</h1><p>{escape(info['description'])}</p>",
            '<p>The same for programs: <a href="openapi.json">openapi.json</a></p>',
            *_callers(document["components"]["securitySchemes"]),
            *_operations(document),
            "<h2>Documents</h2>",
            *(
                f'<h3 id="{escape(name)}">{escape(name)}</h3>{_json(schema)}'
                for name, schema in document["components"]["schemas"].items()
            ),
        ]
    )


def _callers(ways: DocumentPart) -> Iterator[str]:
    yield "<h2>Callers</h2>"
    rows = [
        (f"<code>{escape(name)}</code>", _place(way), escape(way.get("description", "")))
        for name, way in ways.items()
    ]
    yield _table(("way", "where", ""), rows)


def _place(way: DocumentPart) -> str:
    if way["type"] == "http":
        return "<code>Authorization: Bearer</code>"
    return f"{escape(way['in'])} <code>{escape(way['name'])}</code>"


def _operations(document: DocumentPart) -> Iterator[str]:
    yield "<h2>Pages</h2>"
    for path, item in document["paths"].items():
        for method in ("get", "post"):
            if method in item:
                shared = item.get("parameters", [])
                yield from _operation(method, path, item[method], shared, document)


def _operation(
    method: str, path: str, one: DocumentPart, shared: list[Any], document: DocumentPart
) -> Iterator[str]:
    yield f'<h3 id="{escape(one["operationId"])}"><b>{method.upper()}</b> {escape(path)}</h3>'
    yield f"<p>{escape(one.get('summary', ''))}</p>"
    ways = [" + ".join(way) for way in one.get("security", document["security"])]
    yield f"<p>Callers: {escape(', '.join(filter(None, ways))) or 'anybody'}</p>"
    if parameters := [*shared, *one.get("parameters", [])]:
        yield _table(("parameter", "in", "required", "schema"), map(_parameter, parameters))
    if "requestBody" in one:
        body = one["requestBody"]
        yield f"<p>Body: {escape(body.get('description', ''))}</p>"
        yield from (
            f"<p>{escape(kind)}</p>{_json(it['schema'])}" for kind, it in body["content"].items()
        )
    yield _table(
        ("answer", "meaning", "headers", "document"), map(_response, one["responses"].items())
    )


def _parameter(one: DocumentPart) -> tuple[str, ...]:
    required = "yes" if one.get("required") else ""
    return f"<code>{escape(one['name'])}</code>", escape(one["in"]), required, _json(one["schema"])


def _response(at: tuple[str, DocumentPart]) -> tuple[str, ...]:
    status, one = at
    headers = " ".join(f"<code>{escape(name)}</code>" for name in one.get("headers", {}))
    documents = [
        f"{escape(kind)}{_json(it['schema']) if 'schema' in it else ''}"
        for kind, it in one.get("content", {}).items()
    ]
    return status, escape(one["description"]), headers, "".join(documents)


def _table(head: tuple[str, ...], rows: Any) -> str:
    cells = "".join(f"<th>{one}" for one in head)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}' for cell in row)}" for row in rows)
    return f"<table><tr>{cells}{lines}</table>"


def _json(part: Any) -> str:
    if list(part) == ["$ref"] and (found := _REFERENCE.fullmatch(escape(json.dumps(part["$ref"])))):
        return f'<p><a href="#{found[1]}">{found[1]}</a></p>'
    text = escape(json.dumps(part, indent=2, ensure_ascii=False))
    linked = _REFERENCE.sub(r'&quot;<a href="#\1">\1</a>\2&quot;', text)
    return f"<pre>{linked}</pre>"
