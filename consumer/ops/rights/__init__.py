"""The rights of all roles, printed as commands, and as findings of `check`.

`kafka_rights` lists the topics and groups of each role by the handlers, and `roles` puts them
beside those of Redis and SQL; both are pure. `command` is `onceward-worker rights`. `checking`
makes findings of what `feedback/rights` misses.
"""
