"""From Kafka into the bounded buffer: poll, tell ACCEPTED, commit, hand over.

- `kafka_source` reads records and commits offsets; `partition_quarantine` leaves out partitions
  that Kafka refuses to this worker.
- `intake` is the thread that does so record by record, `batch_intake` the one that reads in
  batches; `kafka_thread` is what all threads that read Kafka share.
- `buffer` holds committed requests until a slot is free.
"""
