"""The settings of a session that nobody has named, and the lines that it shows. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from feedback.errors import SettingsError
from feedback.settings.settings import Settings

HANDLERS = "ONCEWARD_WORKER__HANDLERS"
KAFKA = "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS"
GROUP = "ONCEWARD_KAFKA__GROUP"
REDIS = "ONCEWARD_REDIS__URL"
JOURNAL = "ONCEWARD_JOURNAL__URL"
OF_CLIENTS = (KAFKA, GROUP, REDIS, JOURNAL)


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The settings of a session.

    Attributes:
        modules: of the handlers.
        own: variables that nobody has set, for the session's processes.
    """

    modules: tuple[str, ...]
    group: str
    journal_url: str
    own: Mapping[str, str]


def session_plan_of(settings: Settings, modules: Sequence[str], *, folder: Path) -> SessionPlan:
    """Return the settings of a session: those that are named, and ours for the rest.

    Args:
        modules: of the command line; without any those of the settings.
        folder: of the session's data.

    Raises:
        SettingsError: nothing names a handler.
    """
    named = tuple(modules) or settings.worker.handlers
    if not named:
        raise SettingsError(
            "no handlers: run `onceward dev payments.py`, or `onceward init` for a first one"
        )
    own = {HANDLERS: ",".join(modules)} if modules else {}
    group, journal_url = settings.kafka.group, settings.journal.url
    if "group" not in settings.kafka.model_fields_set:
        group = own[GROUP] = named[0].rpartition(".")[2]
    if "url" not in settings.journal.model_fields_set:
        journal_url = own[JOURNAL] = f"sqlite:///{folder / 'journal.db'}"
    return SessionPlan(named, group, journal_url, own)


def module_of(argument: str, *, root: Path) -> str:
    """Return the module that a file or a module's name means.

    >>> module_of("shop.handlers", root=Path("/"))
    'shop.handlers'

    Args:
        root: the folder from which modules are imported.

    Raises:
        SettingsError: it is no module's name, and no file below `root` that has one.
    """
    name = argument
    if argument.endswith(".py"):
        file = (root / argument).resolve()
        if not file.is_file():
            raise SettingsError(f"{argument}: there is no such file")
        if not file.is_relative_to(root.resolve()):
            raise SettingsError(f"{argument}: run this in its folder, handlers are imported there")
        name = ".".join(file.relative_to(root.resolve()).with_suffix("").parts)
    if not all(part.isidentifier() for part in name.split(".")):
        raise SettingsError(f"{argument}: name a Python file or module, such as payments.py")
    return name


def exports_of(plan: SessionPlan, environ: Mapping[str, str]) -> list[str]:
    """Return the lines that a client's shell needs: settings that stand in no file.

    A URL with a password is left out: a terminal is read by others.
    """
    given = {name: environ[name] for name in OF_CLIENTS if environ.get(name)}
    named = {name: plan.own[name] for name in OF_CLIENTS if name in plan.own}
    return [
        f"export {name}={shlex.quote(value)}"
        for name, value in {**given, **named}.items()
        if urlsplit(value).password is None
    ]


def first_send(settings: Settings, config: str | None) -> str:
    """Return the command that sends a first request, for a second terminal."""
    words = ["onceward", "client", "send", '{"amount":5}', "--id", "order-7"]
    words += [] if settings.client.topic else ["--topic", "TOPIC"]
    words += ["--config", config] if config else []
    return shlex.join([*words, "--wait", "10"])
