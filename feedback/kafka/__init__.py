"""Kafka: one port for all callers, and the engines behind it.

The side of the callers, which knows no library:
- `source` reads as a member of a group and commits offsets; `partition_quarantine` leaves out
  partitions that Kafka refuses to this worker. `reader` reads one record by its coordinates, `scan`
  whole topics once.
- `writer` writes a worker's records (`outgoing`) in batches.
- `senders` makes the senders of clients (`sending`); `send_errors` are the ways a send can fail.
  `record_limits` are the rules of a record that hold before a broker is asked. `durability`: the
  copies that a record must have before it counts as sent; `topic_safety`: whether the topic then
  keeps it.
- `topics` makes topics, `topic_facts` describes them; `questions` asks about them, their offsets
  and those of groups; `admin` is the connection for all three. `rights`: which topics may be made.
  `sight`: whether a user could see a topic of a kind.
- `listener` asks a broker's address for the reason of a connection that ends without a word.

The port, small Protocols that an engine fulfils: `member`, `partition_reader`, `producer`,
`administrator`, `fencing`, `probes`. `values` and `errors` are shared by all.
`engine` holds one of each; `engines` chooses by the settings. `in_process` has those of brokers in
this process.

The engines: `kafka_python`, and `confluent` with librdkafka, which leaves to the first the
questions that it cannot ask, and all that reads without a group. `memory` is a broker and an engine
in this process, for tests alone.
"""
