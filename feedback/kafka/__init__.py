"""Kafka: the connections, and what kafka-python 3.0 has no call for or does wrong.

- `reader` reads one record by its coordinates, `scan` whole topics once, `writer` writes in
  batches; `records` makes kafka-python's records ours. `topics` and `admin` ask about topics and
  make them.
- `wire` asks a broker single questions of the protocol: `batches`, `epoch` and `fence` need them.
- `membership`, `fetching`, `sockets`, `failures` and `logs` mend faults of kafka-python.
"""
