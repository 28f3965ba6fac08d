"""The engine that is built on kafka-python, and mends for calls that 3.0 lacks or gets wrong.

- `engine` is the whole of it, for the port: `member`, `partition_reader`, `producer`,
  `administrator`, and `fence`, `rights` and `batches`, which ask brokers single questions of the
  protocol over a `wire`; `epoch` is a part of the fence. `records` converts kafka-python's records.
- `sender` sends single records for clients, `ordered_sender` those of an outbox, in their order. A
  send gives a `pending_record`; `send_refusals`: the answers after which a record is not stored.
  `offers`: whether a batch may have a record when a signal handler raises.
- `faults` turns kafka-python's errors into ours. `admin` is the connection for questions,
  `topic_names` asks for the names of all topics.
- `membership`, `fetching`, `sockets`, `logins`, `retries`, `failures`, `logs` and `tagged_fields`
  mend faults of kafka-python. Its tests (`test_mends`) list them, with the versions that have them.
"""
