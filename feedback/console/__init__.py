"""The console: options, exit codes and errors of all `commands`, `progress`, text safe to show
(`printable`), `plurals`.

`contradictions` refuses options that exclude each other; `pasting` writes commands for a shell.
`access` looks whether servers let a process in, before it waits for outages. `source` names the
group and the database of an answer.
"""
