"""The console: options, exit codes and errors of all `commands`, `progress`, safe text, plurals.

`contradictions` refuses options that exclude each other; `pasting` writes commands for a shell.
`source` names the group and the database of an answer.
"""
