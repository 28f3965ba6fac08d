"""`onceward-client serve --check`: each file and model that `[http]` names, looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from feedback.errors import OncewardError
from feedback.records.schemas import SchemaFile
from feedback.settings.settings import Settings
from producer_client.http.authentication import authentication_of, tokens_of
from producer_client.http.front_door import outbox_of
from producer_client.http.keys import ApiKeys
from producer_client.http.models import model_of
from producer_client.http.read_tokens import read_tokens_of


def findings(settings: Settings) -> Iterator[tuple[str, OncewardError | None]]:
    """Yield what `[http]` names, and its fault; None: it can be used. Nothing is changed."""
    said: set[str] = set()
    for what, look in _looks(settings):
        try:
            look()
        except OncewardError as error:
            # A bad file is no second fault of the callers.
            if str(error) not in said:
                yield what, error
            said.add(str(error))
        else:
            yield what, None


def _looks(settings: Settings) -> Iterator[tuple[str, Callable[[], object]]]:
    section = settings.http
    if section.keys_file:
        yield f"keys_file = {section.keys_file}", partial(ApiKeys, Path(section.keys_file))
    if section.jwks:
        yield f"jwks = {section.jwks}", partial(tokens_of, section)
    yield "callers", partial(authentication_of, section)
    if section.token_secret_file:
        secret = partial(read_tokens_of, section, group=settings.kafka.group)
        yield f"token_secret_file = {section.token_secret_file}", secret
    if section.outbox:
        yield "outbox = true", partial(outbox_of, settings)
    if settings.client.schema_file:
        yield (
            f"[client] schema = {settings.client.schema_file}",
            SchemaFile(settings.client.schema_file).load,
        )
    for name, topic in section.topics.items():
        if topic.schema_file:
            yield f"topics.{name} schema = {topic.schema_file}", SchemaFile(topic.schema_file).load
        if topic.model:
            yield f"topics.{name} model = {topic.model}", partial(model_of, name, topic)
