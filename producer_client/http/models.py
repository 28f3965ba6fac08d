"""The pydantic models of topics: the classes that their handlers name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from pydantic.errors import PydanticUserError

from feedback.errors import SettingsError
from feedback.settings.http_section import HttpTopic


def model_of(topic: str, offered: HttpTopic) -> type[Any]:
    """Return the model of a topic; its module is imported as a worker imports its handlers.

    Raises:
        SettingsError: there is no such class, or the topic has a schema as well.
    """
    here = f"[http.topics.{topic}] model = {offered.model}"
    if offered.schema_file:
        raise SettingsError(f"{here}: give model or schema, not both: each says what a value is")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, name = offered.model.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise SettingsError(f"{here}: {cause[:500]}") from error
    if not (isinstance(found, type) and hasattr(found, "model_validate_json")):
        raise SettingsError(f"{here}: name a pydantic model, as module:Class")
    return found


def schema_of_model(model: type[Any]) -> dict[str, Any] | None:
    """Return a model's JSON Schema; None where it cannot be said as one."""
    try:
        schema: dict[str, Any] = model.model_json_schema()
    except PydanticUserError:
        return None
    return schema
