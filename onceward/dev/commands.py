"""`onceward dev`: the command."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NoReturn

import click

from consumer import migrate
from feedback.console.commands import config_option, file_of, log_level_option
from feedback.errors import ExitCode
from feedback.settings.settings import Settings, load
from onceward.dev.backing import provide
from onceward.dev.claims import DATA_FOLDER, held_lock, make_data_folder
from onceward.dev.dev_session import DevSession, SessionEnded, ended_by_signals
from onceward.dev.output import OURS, say, show_if_read
from onceward.dev.session_plan import (
    SessionPlan,
    exports_of,
    first_send,
    module_of,
    session_plan_of,
)


@click.command()
@config_option
@log_level_option
@click.option("--servers", is_flag=True, help="Kafka and Redis alone: no worker, no resender.")
@click.argument("handlers", nargs=-1)
def dev(config: str | None, log_level: str, servers: bool, handlers: tuple[str, ...]) -> int:
    """Run all that HANDLERS need on this machine, until Ctrl-C.

    HANDLERS are files or modules; without any, those of the settings. Kafka and Redis are used
    where the settings find them running, and else started there. Journal, topics, a worker and a
    resender follow. A change of a Python file starts the worker anew. Data stay in .onceward.

    \b
    Examples:
      onceward dev
      onceward dev payments.py
      onceward dev --servers
    """
    if servers and handlers:
        raise click.UsageError("--servers runs no handlers: leave one of the two")
    try:
        with ended_by_signals(), ExitStack() as ends:
            if servers:
                _run_servers(load(file_of(config)), ends)
            _run_all(config, log_level, handlers, ends)
    except SessionEnded:
        show_if_read(OURS, "stopped")
    return int(ExitCode.FINE)


def _run_servers(settings: Settings, ends: ExitStack) -> NoReturn:
    _open(settings, Path.cwd() / DATA_FOLDER, ends)
    say("no worker runs here; Ctrl-C stops all of this")
    while True:
        signal.pause()


def _run_all(
    config: str | None, log_level: str, handlers: Sequence[str], ends: ExitStack
) -> NoReturn:
    root = Path.cwd()
    file = file_of(config)
    settings = load(file)
    modules = [module_of(one, root=root) for one in handlers]
    plan = session_plan_of(settings, modules, folder=root / DATA_FOLDER)
    _open(settings, root / DATA_FOLDER, ends)
    for url in dict.fromkeys((plan.journal_url, settings.registry.url)):
        if url:
            migrate(url)
    session = DevSession(
        {**os.environ, **plan.own},
        options=("--log-level", log_level, *(("--config", file) if file else ())),
        root=root,
        settings_file=root / file if file else None,
    )
    ends.enter_context(closing(session))
    _explain(settings, plan, config)
    session.run()


def _open(settings: Settings, folder: Path, ends: ExitStack) -> None:
    """Make the folder and the servers, which end with `ends`; the folder is there to stay."""
    make_data_folder(folder)
    ends.enter_context(held_lock(folder / "dev.lock", subject=str(folder)))
    provide(settings, folder, ends=ends, say=say)


def _explain(settings: Settings, plan: SessionPlan, config: str | None) -> None:
    say(f"handlers {', '.join(plan.modules)}; group {plan.group}; Ctrl-C stops all of this")
    say("in a second terminal, in this folder:")
    for line in [*exports_of(plan, os.environ), first_send(settings, config)]:
        click.echo(f"    {line}")
