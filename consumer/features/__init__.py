"""One folder for each feature that a user may declare or set; the road works without them.

Each has a factory `make(core)` and one line in the list of `consumer/ops/build.py`. It returns
`consumer.loop.feature.Feature`s, threads included, or nothing where the feature is off. A feature
with listeners finds them by `core.made(kind)`: `outgoing/record_writer`, `pausing/pausing`.

- `retries/`: failed runs that left nothing run again by themselves, later.
- `dead_letters/` sets failed requests aside; `dead_letter_handlers/` gives them to the user's code.
- `outcomes/` passes on how requests ended, as records; `outgoing/` is how records that a row of the
  journal owes are written until Kafka has them, for letters and outcomes alike.
- `pausing/`: topics that do not run for a while; `alerts/` tells the owner of the data.
- `waits/`: at-least-once delivery, for requests that no client waits for, and their registry.
- `batches/`: a topic is read batch by batch, and committed when a batch has ended.
- `collapse/`: of the requests of one key that wait together, one runs in the others' stead.
"""
