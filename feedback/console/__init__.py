"""The console: options, exit codes and errors of all `commands`, `progress`, safe text, plurals.

`contradictions` refuses options that exclude each other; `pasting` writes commands for a shell.
"""
