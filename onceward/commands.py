"""`onceward`: the commands of all rooms under one name, each loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from feedback import ABOVE, __version__
from feedback.console.commands import Group

# Name, module with its `cli`, and the line that the list of commands shows without loading it.
ROOMS = {
    "audit": ("spark_audit.run.command_line", "Prove from the topics what became of each request."),
    "client": ("producer_client.commands.commands", "Send requests, follow them, send them again."),
    "console": ("consumer.console.commands", "Show all of it in a browser; it changes nothing."),
    "dlq": ("consumer.dlq.commands", "Show requests that failed for good, and repair them."),
    "worker": ("consumer.ops.commands", "Run requests; the journal and paused topics."),
}
# Of the face itself: name, command, and its line.
OWN = {
    "init": ("first_project.init", "Write settings and a first handler into this folder."),
    "dev": ("dev.commands.dev", "Run Kafka, Redis, a worker and a resender here, until Ctrl-C."),
    "help": (
        "troubleshooting.explain",
        "Explain an error, an exit code, a line of check or a symptom.",
    ),
}


class Rooms(Group):
    """A group whose commands are those of the face and the groups of the rooms."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return our own commands, and the names of the rooms' groups."""
        return [*OWN, *ROOMS]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command or a room's group, which imports it; None for other names."""
        if name in OWN:
            module, _, variable = OWN[name][0].rpartition(".")
            own: click.Command = getattr(import_module(f"onceward.{module}"), variable)
            return own
        if name not in ROOMS:
            return None
        room: click.Command = import_module(ABOVE + ROOMS[name][0]).cli
        return room

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that a shell offers, and load none."""
        offered = [
            CompletionItem(name, help=line)
            for name, (_, line) in {**OWN, **ROOMS}.items()
            if name.startswith(incomplete)
        ]
        return [*offered, *click.Command.shell_complete(self, context, incomplete)]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of groups, and load none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in {**OWN, **ROOMS}.items()])


@click.group(cls=Rooms)
@click.version_option(__version__)
def cli() -> None:
    """Runs requests that must not run twice, and proves that they did not.

    `onceward worker run` is `onceward-worker run`, and so on for each command.

    \b
    Examples:
      onceward init
      onceward dev payments.py
      onceward worker run
      onceward client send '{"amount":5}' --id order-7 --topic payments --wait 10
      onceward dlq list --since 2h
    """
