"""What runs while the stack is up: a command that gets our signals, or a wait for the end."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial

from onceward.servers.keeper_process import die_with

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
# siginfo's si_code of a signal that the kernel sent, such as Ctrl-C in a terminal.
SI_KERNEL = 0x80


def wait_for_the_end() -> None:
    """Return at Ctrl-C, SIGTERM or SIGHUP."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    signal.sigwait(ENDING)


def run(command: Sequence[str], settings: Mapping[str, str]) -> int:
    """Run `command` with `settings` in its environment, pass on signals, return its exit code.

    A command ended by signal N gives 128 + N, as in a shell.

    Raises:
        OSError: it cannot be started.
    """
    # Blocked before the start, so that no signal falls between the start and the loop.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING | {signal.SIGCHLD})
    process = subprocess.Popen(
        command,
        env=os.environ | dict(settings),
        preexec_fn=partial(_prepare_child, before, os.getpid()),
    )
    while process.poll() is None:
        received = signal.sigwaitinfo(ENDING | {signal.SIGCHLD})
        # The terminal tells its whole foreground group: the command has had that one already.
        if received.si_signo in ENDING and received.si_code != SI_KERNEL:
            process.send_signal(received.si_signo)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _prepare_child(mask: set[int | signal.Signals], parent_pid: int) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    die_with(parent_pid, signal.SIGTERM)
