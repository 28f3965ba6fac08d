"""Checks that refuse declarations whose promises cannot be kept; a file for each feature.

`handler_check` is the whole of it. It asks `retries`, `collapse` and `waits` (of `delivery=`), and
`consumer.handlers.dead_letters`.
"""
