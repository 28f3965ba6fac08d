"""The worker as a process: started, stopped, watched, checked, and its command line.

- `parts` makes and connects the parts of a worker, `making` those that have no package of their
  own; `service` starts them in order, runs the loop, drains it and closes them; `signals` ends it.
- `commands` is `onceward-worker`; `check` is its command that asks each server and setting.
- `health/` says whether the worker gets on, can take work, and what happened: pages and metrics.
"""
