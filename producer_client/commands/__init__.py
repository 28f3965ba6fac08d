"""`onceward-client`: its commands, and its services as processes.

- `commands`: send, status, wait, resend; `jsonl` reads the lines that are sent, `audited` those of
  an audit.
- `outbox_commands`: the relay, and the outbox's own. `http_commands` starts the front door.
- `service`: the process around the resender and the relay.
"""
