"""Kafka: the port that all callers use, and the engine behind it.

- `source` reads as a member of a group and commits offsets; `partition_quarantine` leaves out
  partitions that Kafka refuses to this worker. `reader` reads one record by its coordinates, `scan`
  whole topics once.
- `writer` writes a worker's records in batches. `send_errors` says how a client's send can fail;
  `durability`: the copies that a record must have before it counts as sent; `topic_safety`: whether
  the topic then keeps it.
- `topics` makes topics, `topic_facts` describes them; `questions` asks about them, their offsets
  and those of groups.
- `listener` asks a broker's address for the reason of a connection that ends without a word.
- `kafka_python` is the engine that is built on kafka-python.
"""
