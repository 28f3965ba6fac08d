"""One audit from its settings to its exit code, and the commands.

- `commands` is `onceward-audit`; `command_line` is its entry, which refuses where its extra is not
  installed. `preparation` looks at everything that can be wrong before Spark starts; `opening`
  opens Spark and the output folder; `audit` leads the way of a day, and `telling` tells its
  verdict.
- `day_pruning` cuts old days down, `package` is the audit as one file for `spark-submit`.
"""
