"""`onceward dev`: the command."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path

import click

from consumer import migrate
from feedback.console.commands import config_option, file_of, log_level_option
from feedback.errors import ExitCode
from feedback.settings.settings import Settings, load
from onceward.dev.backing import provide
from onceward.dev.claims import DATA_FOLDER, claimed, make_data_folder
from onceward.dev.output import OURS, say, show_if_read
from onceward.dev.plan import SessionPlan, exports_of, first_send, module_of, plan_of
from onceward.dev.session import DevSession, SessionEnded, ended_by_signals


@click.command()
@config_option
@log_level_option
@click.argument("handlers", nargs=-1)
def dev(config: str | None, log_level: str, handlers: tuple[str, ...]) -> int:
    """Run all that HANDLERS need on this machine, until Ctrl-C.

    HANDLERS are files or modules; without any, those of the settings. Kafka and Redis are used
    where the settings find them running, and else started there. Journal, topics, a worker and a
    resender follow. A change of a Python file starts the worker anew. Data stay in .onceward.

    \b
    Examples:
      onceward dev
      onceward dev payments.py
    """
    root = Path.cwd()
    file = file_of(config)
    settings = load(file)
    modules = [module_of(one, root=root) for one in handlers]
    plan = plan_of(settings, modules, folder=root / DATA_FOLDER)
    try:
        with ended_by_signals(), ExitStack() as ends:
            _open(settings, plan, root / DATA_FOLDER, ends)
            options = ("--log-level", log_level, *(("--config", file) if file else ()))
            session = ends.enter_context(
                closing(
                    DevSession(
                        {**os.environ, **plan.own},
                        options=options,
                        root=root,
                        settings_file=root / file if file else None,
                    )
                )
            )
            _explain(settings, plan, config)
            session.run()
    except SessionEnded:
        show_if_read(OURS, "stopped")
    return int(ExitCode.FINE)


def _open(settings: Settings, plan: SessionPlan, folder: Path, ends: ExitStack) -> None:
    """Make the folder, the servers and the tables; all of it is there to stay but the servers."""
    make_data_folder(folder)
    ends.enter_context(claimed(folder / "dev.lock", subject=str(folder)))
    provide(settings, folder, ends=ends, say=say)
    for url in dict.fromkeys((plan.journal_url, settings.registry.url)):
        if url:
            migrate(url)


def _explain(settings: Settings, plan: SessionPlan, config: str | None) -> None:
    say(f"handlers {', '.join(plan.modules)}; group {plan.group}; Ctrl-C stops all of this")
    say("in a second terminal, in this folder:")
    for line in [*exports_of(plan, os.environ), first_send(settings, config)]:
        click.echo(f"    {line}")
