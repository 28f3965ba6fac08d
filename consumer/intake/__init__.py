"""From Kafka into the bounded buffer: poll, tell ACCEPTED, commit, hand over.

- `intake` is the thread that does so record by record, `batch_intake` the one that reads in
  batches; `kafka_thread` is what all threads that read Kafka share;
  `feedback.kafka.source` reads and commits.
- `buffer` holds committed requests until a slot is free.
"""
