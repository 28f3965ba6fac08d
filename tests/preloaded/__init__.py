"""Our commands as processes that do not have to import anything: a third of the work of all tests.

A process (`process`) has imported what `onceward-worker`, `onceward-dlq` and `onceward-client` are
made of. It forks for each command that is asked for, and the child runs the command's module as
`python -m` does, in a session, with an environment, a folder and files of its own. `forks` asks
it, and gives what `subprocess` gives. `programs` gives a shell programs of the same names.

What differs from a process of its own: its command line is that of `process`, and what was
imported counts as shared in its memory. A test to which that matters takes `subprocess`.
"""

from tests.preloaded.forks import run, start

__all__ = ["run", "start"]
