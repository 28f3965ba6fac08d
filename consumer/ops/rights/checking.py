"""Rights as findings of `onceward-worker check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from consumer.ops.check_result import CheckResult
from consumer.ops.needed_topics import names_of_topics
from consumer.ops.rights.command import handlers_of
from consumer.ops.rights.kafka_rights import kafka_rights
from feedback.errors import ExitCode, OncewardError, SettingsError
from feedback.rights.looking import questions
from feedback.rights.needed import MissingRight, Resource, Role
from feedback.settings.settings import Settings


def look_at_rights(
    settings: Settings, role: Role, *, ok: Mapping[str, bool] = MappingProxyType({})
) -> Iterator[CheckResult]:
    """Yield each right that the users of the settings lack, or that they lack none.

    Args:
        ok: whether a server was found in order: a fault of one that was not is named already.
    """
    missing: list[MissingRight] = []
    unknown: list[str] = []
    try:
        handlers = handlers_of(settings)
    except SettingsError as error:
        if not ok:
            yield CheckResult("rights", str(error), error.exit_code)
        return
    rights = kafka_rights(role, settings, handlers)
    for server, ask in questions(role, settings, rights, known=names_of_topics(settings, handlers)):
        try:
            missing += ask()
        except OncewardError as error:
            unknown.append(server)
            if ok.get(server, True):
                yield CheckResult("rights", f"of {server} unknown: {error}", error.exit_code)
    for one in missing:
        code = ExitCode.NOT_AVAILABLE if one.is_needed else ExitCode.BAD_ANSWER
        yield CheckResult("rights", str(one), code)
    if not missing and not unknown:
        names_none = not any(one.resource is Resource.TOPIC for one in rights)
        is_none = names_none and role is not Role.MIGRATE
        of_none = "; these settings name no topic, so none was looked at" if is_none else ""
        yield CheckResult("rights", f"{role} has all that it needs{of_none}")
