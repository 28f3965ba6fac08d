"""The stack for the shell: `python -m tests.stack [options] [-- COMMAND ...]`."""

import argparse
import os
import shlex
import signal
import sys

from feedback.errors import NotAvailable
from onceward.servers.errors import StackError
from tests.stack import foreground
from tests.stack.installing import FOR_TESTS, install
from tests.stack.memory import memory_folder, temporary_files_in, temporary_folder_in
from tests.stack.running import announced, running_settings
from tests.stack.servers import Servers
from tests.stack.stack import KINDS, Stack


def _kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if unknown := set(kinds) - set(KINDS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {[*KINDS]}")
    return kinds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.stack",
        description="Real Kafka, Redis and PostgreSQL on loopback ports, until Ctrl-C.",
        epilog="Servers named by the ONCEWARD_... settings are used as they are, not started.",
    )
    parser.add_argument(
        "--only", type=_kinds, metavar="KINDS", help=f"some of {','.join(KINDS)}; all by default"
    )
    parser.add_argument(
        "--install", action="store_true", help="install and fetch what is missing, start nothing"
    )
    parser.add_argument(
        "--reuse", action="store_true", help="take the servers that `make stack` runs, if it does"
    )
    parser.add_argument(
        "--lean",
        action="store_true",
        help="for many short uses: the broker compiles less, temporary files lie in memory",
    )
    parser.add_argument(
        "command", nargs="*", help="run this (after --) with the settings, then stop the stack"
    )
    return parser


def _terminated(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """Do what the command line says; return the exit code."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        if asked.install:
            _install(asked.only or [*KINDS, *FOR_TESTS])
            return 0
        kinds = asked.only or [*KINDS]
        environ = (running_settings() if asked.reuse else {}) | os.environ
        _require_given(kinds, Servers.of_environment(environ))
        with temporary_files_in(memory_folder() if asked.lean else None):
            stack = Stack.start(
                kafka="kafka" in kinds,
                redis="redis" in kinds,
                postgres="postgres" in kinds,
                environ=environ,
                full_jit=not asked.lean,
            )
    except NotAvailable as error:
        print(error, file=sys.stderr)
        return 1
    with stack as servers:
        settings = servers.settings()
        # They go with the servers, however this process ends.
        if asked.lean and stack.folder is not None and "TMPDIR" not in os.environ:
            settings["TMPDIR"] = str(temporary_folder_in(stack.folder))
        return _use(stack, servers, asked.command, settings)


def _require_given(kinds: list[str], given: Servers) -> None:
    """Else each test would wait for a server that has ended since it was exported."""
    asked = Servers(**{kind: getattr(given, kind) for kind in kinds})
    if faults := asked.faults():
        lines = (
            f"{name}: {fault}; start that server, or unset {name}" for name, fault in faults.items()
        )
        raise StackError("\n".join(lines))


def _install(kinds: list[str]) -> None:
    for what in install(kinds) or ["nothing was missing"]:
        print(what)


def _use(stack: Stack, servers: Servers, command: list[str], settings: dict[str, str]) -> int:
    if command:
        try:
            return foreground.run(command, settings)
        except OSError as error:
            print(error, file=sys.stderr)
            return 127
    if stack.folder is not None:
        print(f"# data and logs: {stack.folder}")
    for name, value in settings.items():
        print(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    with announced(servers):
        foreground.wait_for_the_end()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
