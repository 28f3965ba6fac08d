"""The rights that each role needs on Kafka, Redis and SQL: listed, printed as commands, looked at.

- `needed` has the words of a right. `kafka_rights`, `redis_rights` and `sql_rights` list them by
  role; `roles` puts them together. All of it is pure, and the only place that knows them.
- `lines` writes the commands that grant them; `command` is `onceward-worker rights`.
- `looking` asks the servers for `check` and before a start; `kafka_missing`, `redis_missing` and
  `sql_missing` say which right a user lacks, with the command that grants it. `checking` makes
  findings of them.

A role is the user of one kind of process, or of a person at the command line:

    worker    onceward-worker run           client    a program that sends, or serve
    resender  onceward-client resend        relay     onceward-client relay
    registry  onceward-dlq expire           operator  a person: dlq, topics, prune, pause, check
    auditor   onceward-audit                migrate   onceward-worker migrate
"""
