"""The pool with real child processes."""
