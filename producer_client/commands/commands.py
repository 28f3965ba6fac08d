"""`onceward-client`: send, status, wait, resend; the outbox's are in `outbox_commands`."""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import click
from rich.console import Console
from rich.progress import Progress

from feedback import __version__, logs
from feedback.console.access import require_access
from feedback.console.commands import (
    OF_A_GROUP,
    Group,
    config_option,
    json_option,
    log_level_option,
    print_status,
    settings_of,
)
from feedback.console.contradictions import refuse_beside
from feedback.errors import ExitCode, InvalidValue, more
from feedback.records.envelope import check_request_id
from feedback.rights.needed import Role
from feedback.status import State
from feedback.statuses import Status
from producer_client.client.client import Client
from producer_client.client.watching import watch
from producer_client.commands.audited import JournalMark
from producer_client.commands.http_commands import serve as serve_http
from producer_client.commands.jsonl import lines_and_pauses, parse, read_submissions
from producer_client.commands.outbox_commands import outbox, relay
from producer_client.commands.service import run_once, serve
from producer_client.http.key_commands import keys
from producer_client.resender.resender import Resender
from producer_client.resender.resends import ResentRequest
from producer_client.submission import SendResult, Submission


@click.group(cls=Group)
@click.version_option(__version__)
def cli() -> None:
    """Sends requests that must not run twice, and follows them."""


cli.add_command(relay)
cli.add_command(serve_http)
cli.add_command(outbox)
cli.add_command(keys)


@cli.command()
@config_option
@json_option
@click.argument("payload", required=False)
@click.option("--file", "lines", type=click.File("rb"), help="JSONL, a request a line; - is stdin.")
@click.option("--text", is_flag=True, help="PAYLOAD is text: send it as it is, JSON or not.")
@click.option("--topic", help="Default: [client] topic.")
@click.option("--key", help="Requests with the same key share a partition.")
@click.option("--id", "request_id", help="The name of its action: order-7. Default: a UUIDv7.")
@click.option("--deadline", "deadline_s", type=float, help="Seconds in which its run must start.")
@click.option("--rate", type=click.FloatRange(min=0.01), help="Requests per second at most.")
@click.option("--wait", "wait_s", type=float, help="Wait this many seconds for the outcome.")
def send(
    config: str | None,
    as_json: bool,
    payload: str | None,
    lines: IO[bytes] | None,
    text: bool,
    topic: str | None,
    key: str | None,
    request_id: str | None,
    deadline_s: float | None,
    rate: float | None,
    wait_s: float | None,
) -> int:
    """Send one PAYLOAD (JSON, or --text), a JSONL file, or standard input.

    Name each request by its action (--id, "request_id"): then sending it again, after any answer,
    asks for the same thing. An id that is made here is enough where nobody ever sends it again.

    A line of JSONL is an object with "value" (any JSON) or "value_base64", and optionally "key",
    "request_id", "topic", "deadline_s" and "headers"; any other JSON is itself the value. The lines
    of an audit's resend.jsonl are sent only while the journal has not pruned the requests that they
    are about.

    \b
    Examples:
      onceward-client send '{"amount":5}' --id order-7 --topic payments --wait 10
      onceward-client send --file payments.jsonl --rate 200
      echo '{"value": {"amount": 5}, "request_id": "order-7"}' | onceward-client send
    """
    refuse_beside("PAYLOAD", "--file", "--rate")
    if payload is None and (request_id is not None or wait_s is not None or text):
        raise click.UsageError("--id, --wait and --text belong to a single PAYLOAD")
    if payload is not None and not text:
        _require_json(payload)
    settings = settings_of(config, needs=OF_A_GROUP)
    with Client(settings) as client:
        if payload is not None:
            one = Submission(payload, key, topic, request_id, deadline_s=deadline_s)
            return _send_one(client, one, wait_s=wait_s, as_json=as_json)
        stream = lines or sys.stdin.buffer
        lines_read = lines_and_pauses(stream)
        submissions = read_submissions(
            lines_read,
            topic=topic,
            key=key,
            deadline_s=deadline_s,
            check=JournalMark(settings).check,
        )
        return _send_many(client, submissions, rate=rate, as_json=as_json)


@cli.command()
@config_option
@json_option
@click.argument("request_ids", nargs=-1, required=True)
def status(config: str | None, as_json: bool, request_ids: tuple[str, ...]) -> int:
    """Print the known status of requests; exit code 1 when one failed or is unknown.

    \b
    Example:
      onceward-client status order-7
    """
    wanted = [check_request_id(one) for one in request_ids]
    with Client(settings_of(config, needs=OF_A_GROUP)) as client:
        found = client.store.read_many(wanted)
    for one in found:
        print_status(one, as_json=as_json)
    return int(ExitCode.BAD_ANSWER if any(map(_is_bad, found)) else ExitCode.FINE)


@cli.command()
@config_option
@json_option
@click.argument("request_id")
@click.option("--timeout", "timeout_s", type=float, help="Seconds; default: as long as it takes.")
@click.option("--no-resend", is_flag=True, help="Only watch; end with 1 if it stays LOST.")
def wait(
    config: str | None, as_json: bool, request_id: str, timeout_s: float | None, no_resend: bool
) -> int:
    """Wait until a request has ended, resending it when that helps.

    \b
    Example:
      onceward-client wait order-7 --timeout 60
    """
    settings = settings_of(config, needs=OF_A_GROUP)
    check_request_id(request_id)
    with Client(settings) as client:
        if no_resend:
            lost_s = max(settings.client.resend_after_s, 2 * settings.redis.heartbeat_ttl_s)
            found = watch(client, request_id, timeout_s=timeout_s, lost_s=lost_s)
        else:
            found = client.wait(request_id, timeout_s=timeout_s)
    print_status(found, as_json=as_json)
    return int(ExitCode.BAD_ANSWER if _is_bad(found) else ExitCode.FINE)


@cli.command()
@config_option
@json_option
@click.option(
    "--once",
    is_flag=True,
    help="One pass over lost and due requests; ends with 3 where some could not be tried.",
)
@log_level_option
def resend(config: str | None, as_json: bool, once: bool, log_level: str) -> int:
    """Send lost, overdue and unfinished requests again, until SIGTERM or Ctrl-C.

    Run at least one for a group; several share the work.

    \b
    Examples:
      onceward-client resend --config payments.toml
      onceward-client resend --once --json
    """
    # SQLAlchemy comes with it, for which a send would wait as well.
    from feedback.rights.looking import require_sending_rights

    settings = settings_of(config, needs=OF_A_GROUP)
    logs.configure(level=log_level)
    require_access(settings)
    require_sending_rights(Role.RESENDER, settings)
    resender = Resender(settings, on_resent=_print_resent if as_json else lambda resent: None)
    return int(run_once(resender) if once else serve(resender))


def _require_json(payload: str) -> None:
    """Refuse a PAYLOAD that is no JSON: sent as text, each handler would fail at it."""
    try:
        parse(payload)
    except ValueError as error:
        raise click.UsageError(f"PAYLOAD is no JSON: {error}. To send text, add --text") from None


def _send_one(client: Client, one: Submission, *, wait_s: float | None, as_json: bool) -> int:
    handle = client.send(
        one.value,
        key=one.key,
        topic=one.topic,
        request_id=one.request_id,
        deadline_s=one.deadline_s,
    )
    if wait_s is None:
        _print_result(SendResult(handle.request_id), as_json=as_json)
        return int(ExitCode.FINE)
    found = handle.wait(wait_s)
    print_status(found, as_json=as_json)
    return int(ExitCode.BAD_ANSWER if _is_bad(found) else ExitCode.FINE)


def _send_many(
    client: Client, submissions: Iterator[Submission | None], *, rate: float | None, as_json: bool
) -> int:
    counts: Counter[str] = Counter()
    lines: deque[int | None] = deque()
    explained: set[str] = set()
    code = ExitCode.FINE
    try:
        with _progress(Console(stderr=True)) as advance:
            for result in client.send_many(_noted(submissions, lines), rate=rate):
                line = lines.popleft()
                counts[_kind(result)] += 1
                if result.error is not None:
                    # A server that is away weighs more than a line that cannot be sent.
                    code = max(code, result.error.exit_code)
                    explained.add(more(result.error.entry))
                advance()
                if as_json or not result.sent:
                    _print_result(result, as_json=as_json, line=line)
    finally:
        # Also before a bad line's error: it counts the requests sent until then.
        summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        click.echo("\n".join([summary or "nothing to send", *sorted(explained)]), err=True)
    return int(code)


def _noted(
    submissions: Iterator[Submission | None], lines: deque[int | None]
) -> Iterator[Submission | None]:
    """Yield submissions, and note the line of each: their results come in that order."""
    for one in submissions:
        if one is not None:
            lines.append(one.line)
        yield one


def _kind(result: SendResult) -> str:
    return "sent" if result.sent else "unknown" if result.unknown else "not sent"


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[], None]]:
    if not console.is_terminal:
        yield lambda: None
        return
    with Progress(*Progress.get_default_columns(), console=console, transient=True) as progress:
        task = progress.add_task("sending", total=None)
        yield lambda: progress.advance(task)


def _print_result(result: SendResult, *, as_json: bool, line: int | None = None) -> None:
    if as_json:
        error = None if result.error is None else str(result.error)
        told = {"request_id": result.request_id, "sent": result.sent, "error": error}
        told |= {"unknown": result.unknown}
        click.echo(json.dumps(told if line is None else told | {"line": line}))
    elif result.error is None:
        click.echo(result.request_id)
    else:
        # Other errors name the request, or its id.
        is_unnamed = isinstance(result.error, InvalidValue) and line is not None
        where = f"line {line}: " if is_unnamed else ""
        click.echo(f"error: {where}{result.error}", err=True)


def _print_resent(resent: ResentRequest) -> None:
    line = {"request_id": resent.request_id, "attempt": resent.attempt, "why": resent.why}
    # In one write: several threads print.
    click.echo(json.dumps(line | {"topic": resent.topic}))


def _is_bad(found: Status) -> bool:
    return found.state in (State.FAILED, State.IN_DOUBT, State.EXPIRED, State.UNKNOWN)
