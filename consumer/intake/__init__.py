"""From Kafka into the bounded buffer: poll, tell ACCEPTED, commit, hand over.

- `intake` is the thread that does so record by record; `kafka_thread` is the base of all threads
  that read Kafka; `feedback.kafka.source` reads and commits.
- `readers` says which thread reads which topics; `context` is the worker as they see it.
- `unsure` remembers records that were dropped after a commit of unknown outcome.
- `gate` closes topics for a while; `before_commit` is a step between a poll and its commit.
- `buffer` holds committed requests until a slot is free.
"""
