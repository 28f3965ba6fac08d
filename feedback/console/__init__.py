"""The console: options, exit codes and errors of all `commands`, `logs`, `progress`, safe text."""
