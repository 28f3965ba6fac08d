"""`onceward-dlq resolve`: record the decision of a person about a doubt."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, closing
from typing import NamedTuple

import click

from consumer.dlq.options import (
    by_option,
    reason_option,
    stopping_at_signals,
)
from consumer.dlq.redrive.batch_sender import RedriveStatuses, opened_statuses
from consumer.dlq.unfinished import new_owner
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive.resolving import (
    RESERVED_CODES,
    RESOLVED,
    PersonDecisions,
    reserved_words,
)
from feedback import logs
from feedback.console.commands import config_option, json_option, log_level_option, settings_of
from feedback.console.contradictions import refuse_beside
from feedback.console.printable import printable
from feedback.console.source import say_source
from feedback.errors import ExitCode
from feedback.records.envelope import check_request_id
from feedback.rights.needed import Role
from feedback.settings.settings import Settings
from feedback.systemd import notify, unit


@click.command()
@config_option
@click.option("--topic", "topics", multiple=True, help="Only requests of this topic; repeatable.")
@click.option("--once", is_flag=True, help="End when all is read and due requests are moved.")
@log_level_option
def expire(config: str | None, topics: tuple[str, ...], once: bool, log_level: str) -> int:
    """Move requests that waited too long to the dead letters, until SIGTERM or Ctrl-C.

    It reads the wait topics of handlers with delivery="at_least_once". A request that is past its
    expiry and has no living worker becomes a dead letter (EXPIRED), once, however many of these
    processes run. Letters without a journal row are sent back by `onceward-dlq redrive --unknown`.

    \b
    Examples:
      onceward-worker migrate --config payments.toml
      onceward-dlq expire --config payments.toml
      onceward-dlq expire --config payments.toml --topic payments --once
    """
    # Imported only here: the other commands do not need them.
    from consumer.features.waits.registry.registry import Registry
    from consumer.features.waits.registry.wait_topics import registry_rights
    from consumer.journal import Journal
    from feedback.console.access import require_access, require_let_in
    from feedback.rights.looking import require_rights

    settings = settings_of(config)
    logs.configure(level=log_level)
    url = settings.registry.url or settings.journal.url
    require_access(settings)
    # Before the database is asked, which names no right: to connect is one.
    require_rights(Role.REGISTRY, settings, registry_rights(settings, topics))
    with closing(Journal(url, group=settings.kafka.group, worker_id="")) as database:
        require_let_in(database.ping)
    # systemd's variables are removed before a child process may inherit them.
    unit()
    with stopping_at_signals() as stopping:
        registry = Registry(
            settings, name=new_owner(), topics=topics, stopping=stopping, on_read=_alive
        )
        try:
            notify("READY=1")
            if once:
                registry.once()
            else:
                registry.serve()
        finally:
            notify("STOPPING=1")
            registry.close()
    return int(ExitCode.BAD_ANSWER if registry.tally.refused else ExitCode.FINE)


def _alive() -> None:
    notify("WATCHDOG=1")


_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")


@click.command()
@config_option
@json_option
@click.argument("request_id")
@click.option("--succeeded", is_flag=True, help="Its effect happened.")
@click.option("--failed", is_flag=True, help="Its effect did not happen.")
@click.option("--result", help="JSON: its client gets it, as if the handler had returned it.")
@click.option("--code", help=f"Why it failed, in upper case, a word of yours. Default: {RESOLVED}.")
@click.option("--run", type=int, help="The run that is in doubt; refused where one came since.")
@reason_option("--because", "--reason", "because", help="How you know.")
@by_option
def resolve(
    config: str | None,
    as_json: bool,
    request_id: str,
    succeeded: bool,
    failed: bool,
    result: str | None,
    code: str | None,
    run: int | None,
    because: str,
    by: str,
) -> int:
    """End the doubt about a request: the only way for one that is IN_DOUBT.

    Its client is told the outcome. One that failed gets a dead letter, and can then be sent back.

    \b
    Examples:
      onceward-dlq resolve 0198f0c0-… --succeeded --result '{"receipt": 7}' --because "a list"
      onceward-dlq resolve 0198f0c0-… --failed --because "the bank has no such charge"
    """
    if not (succeeded or failed):
        raise click.UsageError("say --succeeded or --failed")
    refuse_beside("--succeeded", "--failed", "--code")
    refuse_beside("--failed", "--result")
    settings = settings_of(config)
    done = resolve_doubt(
        settings,
        check_request_id(request_id),
        has_succeeded=succeeded,
        result=result_of(result),
        code=code_of(code),
        reason=because,
        by=by,
        generation=run,
    )
    say_source(settings, as_json=as_json)
    if as_json:
        state = None if done.row is None else done.row.state
        words = {"request_id": request_id, "resolved": done.is_done, "status": state}
        click.echo(json.dumps(words | {"told": done.is_told}))
    else:
        click.echo(_of_resolved(request_id, done))
    return int(ExitCode.FINE if done.is_done else ExitCode.BAD_ANSWER)


class ResolvedDoubt(NamedTuple):
    """The result of a person's decision about a doubt.

    Args:
        is_done: whether it was in doubt until now.
        row: how it stands; None where the journal knows no such request.
        is_told: whether its client can see it; a worker writes it else.
        refusal: the fault of security for which Redis refused the status; empty for an outage.
    """

    is_done: bool
    row: Row | None
    is_told: bool
    refusal: str


def resolve_doubt(
    settings: Settings,
    request_id: str,
    *,
    has_succeeded: bool,
    result: str | None,
    code: str | None,
    reason: str,
    by: str,
    generation: int | None = None,
) -> ResolvedDoubt:
    """End the doubt about a request, and tell its client.

    The decision and the person's name are one transaction. If the process dies before it, nothing
    has happened; after it, a worker tells the client and writes the dead letter.

    Args:
        code: why it failed, none of `RESERVED_CODES`; without one `RESOLVED`.
        generation: the run that is in doubt; of a later one nothing is said.
    """
    with ExitStack() as stack:
        decisions, statuses = opened_decisions(settings, stack)
        is_done, row = decisions.resolve(
            request_id,
            has_succeeded=has_succeeded,
            result=result,
            code=None if has_succeeded else code or RESOLVED,
            reason=reason,
            by=by,
            generation=generation,
        )
        is_told = is_done and row is not None and statuses.row(row)
        if is_told and row is not None:
            decisions.note_published(row)
        return ResolvedDoubt(is_done, row, is_told, statuses.refusal)


def code_of(given: str | None) -> str | None:
    """Return a code that a person gives.

    Raises:
        UsageError: it is none, or has a meaning of its own.
    """
    if given is not None and not _CODE.match(given):
        raise click.UsageError("--code: upper case letters, digits and _, like NOT_CHARGED")
    if given in RESERVED_CODES:
        raise click.UsageError(f"--code: {reserved_words(given)}")
    return given


def result_of(given: str | None) -> str | None:
    """Return the JSON of a result that a person gives.

    Raises:
        UsageError: it is none.
    """
    if given is None:
        return None
    try:
        return json.dumps(json.loads(given, parse_constant=_no_number))
    except (ValueError, RecursionError):
        raise click.UsageError("--result is no JSON") from None


def _no_number(name: str) -> None:
    raise ValueError(name)


def opened_decisions(
    settings: Settings, stack: ExitStack
) -> tuple[PersonDecisions, RedriveStatuses]:
    """Return the journal's decisions and the status writer; the stack closes both."""
    decisions = stack.enter_context(closing(PersonDecisions.from_settings(settings)))
    return decisions, stack.enter_context(opened_statuses(settings, decisions.journal_id()))


def _of_resolved(request_id: str, done: ResolvedDoubt) -> str:
    if done.row is None:
        return f"{printable(request_id)}: the journal knows no such request"
    state = done.row.state
    if not done.is_done and state == JournalState.IN_DOUBT:
        run = done.row.generation
        return (
            f"{printable(request_id)} is in doubt by run {run} now, not by the one that you named"
        )
    if not done.is_done:
        return f"{printable(request_id)} is {state}: only an IN_DOUBT request can be resolved"
    away = done.refusal or "Redis is away"
    told = "its client can see it" if done.is_told else f"{away}: a worker will write it there"
    letter = "" if state == JournalState.SUCCEEDED else "; a dead letter follows"
    return f"{printable(request_id)} is {state}: {told}{letter}"


COMMANDS = (resolve, expire)
