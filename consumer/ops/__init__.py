"""The worker as a process: started, stopped, watched, checked, and its command line.

- `build` makes one worker, each feature of it in one line; `startup` has the facts that come first.
  `component` starts a list of components and stops it in reverse.
- `service` lists the components in the order of their start, and runs the loop; `drain` ends the
  runs; `signals` end it, and those of `log_level` change how much it logs.
- `commands` is `onceward-worker`; `check` asks each server and setting, and gives a
  `check_result` for each; `open_files` finds files that others may read. `needed_topics` lists,
  shows and makes the topics of handlers; `workers/` lists the workers, living and dead;
  `outbox_counts` counts the rows of an outbox; `rights/` lists the rights that each role needs, and
  the commands that grant them.
- `health/` says whether the worker gets on, can take work, and its latest figures: pages and
  metrics.
"""
