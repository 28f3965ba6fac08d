"""The rights of a role on Kafka, Redis and SQL: their words, and which of them a user lacks.

- `needed` has the words of a right. `senders` lists those of client, relay and resender on Kafka;
  of the other roles `consumer/ops/rights` does, since handlers and features name their topics.
  `redis_rights` and `sql_rights` list them for all roles. All of it is pure.
- `lines` writes the commands that grant them. `login_names` has the users and databases of the
  settings.
- `looking` asks the servers for `check` and before a start; `kafka_missing`, `redis_missing` and
  `sql_missing` say which right a user lacks, with the command that grants it.

A role is the user of one kind of process, or of a person at the command line:

    worker    onceward-worker run           client    a program that sends, or serve
    resender  onceward-client resend        relay     onceward-client relay
    registry  onceward-dlq expire           operator  a person: dlq, topics, prune, pause, check
    auditor   onceward-audit                migrate   onceward-worker migrate
"""
