"""The front door: HTTP for front-ends that submit a request and follow it.

A submission: `starlette_app` (the request) → `door` (the rules, pure) → `front_door` (one
`AsyncClient` sends) → `door` (the answer). `serve` is the process around it.

- `idempotency_key`, `ids`, `problems`, `rates`: parts of the rules; pure.
- `events`: the stream of a request; `metrics`: the counters.

Who calls:
- `callers`: a caller, the topics it may use, and the interface that each way to know it fulfils.
"""
