"""The commands of `onceward-dlq` that change something."""

from __future__ import annotations

from consumer.dlq import (
    deciding_commands,
    discarding_commands,
    expire_commands,
    redrive_commands,
)

COMMANDS = (
    *redrive_commands.COMMANDS,
    *deciding_commands.COMMANDS,
    *discarding_commands.COMMANDS,
    *expire_commands.COMMANDS,
)
