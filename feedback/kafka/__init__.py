"""Kafka: the connections, and mends for calls that kafka-python 3.0 lacks or gets wrong.

- `source` reads as a member of a group and commits offsets; `partition_quarantine` leaves out
  partitions that Kafka refuses to this worker. `reader` reads one record by its coordinates, `scan`
  whole topics once; `records` converts kafka-python's records.
- `sender` sends single records for clients, `ordered_sender` those of an outbox, in their order. A
  send gives a `pending_record`; `send_errors` says how it can fail. `durability`: the copies that a
  record must have before it counts as sent; `topic_safety`: whether the topic then keeps it.
- `writer` writes a worker's records in batches.
- `topics` makes topics, `topic_facts` describes them; `questions` asks about them, their offsets
  and those of groups; `admin` is the connection for all three.
- `wire` asks a broker single questions of the protocol: `batches`, `epoch` and `fence` need them.
- `membership`, `fetching`, `sockets`, `retries`, `failures` and `logs` mend faults of kafka-python.
"""
