"""The front door under load: `make bench-http`, or `python -m tests.bench.http` (`__main__`).

Each case (`cases`) has a door of its own (`door`), a real `onceward-client serve` on real servers:

- `submit`: connections that submit one request after the other, each under a key of its own.
- `status`: connections that read one request each, with the tag of the last answer; half-way each
  request changes.
- `rate-100`: 100 submissions a second, measured from when each was due.
- `streams`: open event streams, and the time from a change in Redis to the event.

`load` drives `connections` from this process, whose CPU is a part of its own in `http-parts.json`.
`submissions` and `readings` know the right answers. All else counts as `wrong`: a 202 whose record
or status is not there, an old status after a change, an event that is missing or one too many.
"""
