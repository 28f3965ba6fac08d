"""The engine that is built on kafka-python, and mends for calls that 3.0 lacks or gets wrong.

- `sender` sends single records for clients, `ordered_sender` those of an outbox, in their order. A
  send gives a `pending_record`; `send_refusals`: the answers after which a record is not stored.
- `records` converts kafka-python's records. `admin` is the connection for questions.
- `wire` asks a broker single questions of the protocol: `batches`, `epoch`, `fence` and `rights`
  need them.
- `faults` turns kafka-python's errors into sentences, with their faults of security.
- `membership`, `fetching`, `sockets`, `logins`, `retries`, `failures` and `logs` mend faults of
  kafka-python.
"""
