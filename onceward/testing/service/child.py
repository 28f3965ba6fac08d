"""The last module of a worker's handlers: in a child, those before it tell their points."""

from __future__ import annotations

from multiprocessing import parent_process

from onceward.testing.real.child import watch_all

# The worker imports it as well, in the test's process, where nothing is to be watched.
if parent_process() is not None:
    watch_all()
