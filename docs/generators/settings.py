"""Every setting: its type, unit, default and variable, from the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.generators.markdown import anchor, code, slug, terms
from docs.generators.meanings import meanings
from feedback.settings.settings import ENV_DELIMITER, ENV_PREFIX, Settings

UNITS = {"_s": "seconds", "_bytes": "bytes", "_per_minute": "a minute"}
_BOUNDS = {Ge: ("ge", "at least"), Gt: ("gt", "above"), Le: ("le", "at most"), Lt: ("lt", "below")}
_TYPES = (
    (bool, "true or false"),
    (int, "whole number"),
    (float, "number"),
    (dict, "table"),
    (tuple, "list of texts"),
)


def markdown() -> str:
    """Return a heading and a table for each section."""
    return "\n\n".join(_section(name, field) for name, field in Settings.model_fields.items())


def names() -> dict[str, list[str]]:
    """Return the settings of each section, as a TOML file names them."""
    return {
        section: [written_name(name, one) for name, one in _model(field).model_fields.items()]
        for section, field in Settings.model_fields.items()
    }


def written_name(name: str, field: FieldInfo) -> str:
    """Return a setting's name in a file: that of its alias, where it has one."""
    return field.alias or name


def variable(section: str, name: str) -> str:
    """Return the environment variable of a setting.

    >>> variable("kafka", "group")
    'ONCEWARD_KAFKA__GROUP'
    """
    return f"{ENV_PREFIX}{section.upper()}{ENV_DELIMITER}{name.upper()}"


def _section(section: str, field: FieldInfo) -> str:
    model = _model(field)
    meant = meanings("settings", section, names()[section])
    found = [
        _term(section, written_name(name, one), one, meant[written_name(name, one)])
        for name, one in model.model_fields.items()
    ]
    about = (model.__doc__ or "").partition(": ")[2].strip().partition("\n")[0]
    head = [anchor(f"settings-{section}"), f"## `[{section}]`", about[:1].upper() + about[1:]]
    return "\n\n".join([*head, terms(found)])


def _term(section: str, name: str, field: FieldInfo, meaning: str) -> tuple[str, str, str, str]:
    default = _default(field)
    said = f"default {code(default)}" if default else "no default"
    facts = f"{_type(name, field)}; {said}; {code(variable(section, name))}"
    return slug(f"setting {section} {name}"), name, meaning, facts


def _type(name: str, field: FieldInfo) -> str:
    unit = next((said for ending, said in UNITS.items() if name.endswith(ending)), "")
    words = [_kind(field), unit, *_bounds(field), "" if field.repr else "may hold a secret"]
    return ", ".join(filter(None, words))


def _kind(field: FieldInfo) -> str:
    annotation = str(field.annotation)
    for kind, said in _TYPES:
        beginnings = (f"{kind.__name__}[", f"{kind.__name__} |")
        if field.annotation is kind or annotation.startswith(beginnings):
            return said
    return "text, a secret" if "SecretStr" in annotation else "text"


def _bounds(field: FieldInfo) -> Iterator[str]:
    for one in field.metadata:
        for kind, (attribute, said) in _BOUNDS.items():
            if isinstance(one, kind):
                yield f"{said} {getattr(one, attribute):,}"
        pattern = getattr(one, "pattern", None)
        if pattern is not None:
            yield f"matches {code(str(pattern))}"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    if isinstance(value, str):
        return f'"{value}"'
    return _toml(value)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    return f"{value:g}" if isinstance(value, float) and value < 1e5 else f"{value:.0f}"


def _model(field: FieldInfo) -> type[BaseModel]:
    model = field.annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    return model
