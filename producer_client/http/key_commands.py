"""`onceward-client keys create · list · revoke`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from feedback import __version__
from feedback.console.commands import Group, config_option, json_option, settings_of
from feedback.console.printable import printable
from feedback.errors import ExitCode, SettingsError
from producer_client.http.keys import ApiKey, KeyFile, Topics

_NEEDS = ("http.keys_file",)
EACH_TOPIC = "*"


@click.group(cls=Group)
@click.version_option(__version__)
def keys() -> None:
    """Makes, lists and revokes the API keys of the front door.

    Run it as the user that serves, so that this user can read the file.
    """


@keys.command()
@config_option
@json_option
@click.argument("name")
@click.option("--submit", multiple=True, metavar="TOPIC", help="May submit to it; '*' to each.")
@click.option("--read", multiple=True, metavar="TOPIC", help="May follow its own; '*' of each.")
def create(
    config: str | None, as_json: bool, name: str, submit: tuple[str, ...], read: tuple[str, ...]
) -> int:
    """Make a key for the caller NAME, and print it. It is shown this once.

    Without --submit and --read it may do both, with each topic that is offered. Keys of one NAME
    see the same requests: to replace a key, make the second before you revoke the first.

    \b
    Examples:
      onceward-client keys create shop --submit payments --read payments
      onceward-client keys create back-office --read '*' --json
    """
    if not (name.isprintable() and name.strip() == name and 0 < len(name) <= 128):
        raise click.UsageError("NAME has 1 to 128 printable characters, without blanks around it")
    both = not (submit or read)
    made, text = _file(config).create(
        name, submit=None if both else _topics(submit), read=None if both else _topics(read)
    )
    if as_json:
        click.echo(json.dumps(_shown(made) | {"key": text}))
        return int(ExitCode.FINE)
    click.echo(text)
    click.echo(f"this key of {made.name} is not shown again; its id is {made.id}", err=True)
    return int(ExitCode.FINE)


@keys.command(name="list")
@config_option
@json_option
def list_keys(config: str | None, as_json: bool) -> int:
    """List the keys, oldest first, without their secrets.

    \b
    Example:
      onceward-client keys list --config payments.toml
    """
    for one in _file(config).read():
        click.echo(json.dumps(_shown(one)) if as_json else printable(_line(one)))
    return int(ExitCode.FINE)


@keys.command()
@config_option
@click.argument("ids", nargs=-1, required=True)
def revoke(config: str | None, ids: tuple[str, ...]) -> int:
    """Revoke keys by their ids: from the next request on they are refused.

    Exit code 1 when there is no such key.

    \b
    Example:
      onceward-client keys revoke 7c3e9d3a
    """
    gone = _file(config).revoke(ids)
    for one in ids:
        click.echo(f"{printable(one)} {'revoked' if one in gone else 'is no key'}")
    return int(ExitCode.FINE if set(gone) == set(ids) else ExitCode.BAD_ANSWER)


def _file(config: str | None) -> KeyFile:
    section = settings_of(config, needs=_NEEDS).http
    if not section.keys_file:
        raise SettingsError("this needs a file of keys, and [http] keys_file is empty")
    return KeyFile(Path(section.keys_file))


def _topics(given: tuple[str, ...]) -> Topics:
    return None if EACH_TOPIC in given else tuple(sorted(set(given)))


def _shown(one: ApiKey) -> dict[str, object]:
    return one.model_dump(exclude={"sha256"})


def _line(one: ApiKey) -> str:
    made = datetime.fromtimestamp(one.created_at / 1000, UTC)
    scopes = (f"{name} {_said(topics)}" for name, topics in _scopes(one))
    return "  ".join([one.id, one.name, *scopes, f"{made:%Y-%m-%d %H:%M} UTC"])


def _scopes(one: ApiKey) -> tuple[tuple[str, Topics], ...]:
    return ("submit", one.submit), ("read", one.read)


def _said(topics: Topics) -> str:
    return EACH_TOPIC if topics is None else ",".join(topics) or "-"
