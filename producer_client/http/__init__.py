"""The front door: HTTP for front-ends that submit a request and follow it.

A submission: `pages` (the request) → `door` (the rules, pure) → `front_door` (one `AsyncClient`
sends) → `door` (the answer, one of `answers`). `serve` is the process around it.

- `starlette_app`, `flask_blueprint`, `django_urls`: the pages in a framework. `threads` lets the
  last two call them.

- `idempotency_key`, `ids`, `problems`, `rates`: parts of the rules; pure.
- `value_checks`: the schemas and models (`models`) of values, in threads.
- `events`: the stream of a request; `metrics`: the counters.
- `browser_module`: `onceward.js` as browsers get it.
- `openapi`: all pages as a document; `openapi_page`: that document for people.

The caller of a request:
- `callers`: a caller, its topics, and the interface of each way to recognise callers.
- `authentication`: the ways that the settings name. These are `keys` (with `key_commands`),
  `jwt_callers` (with `signers`) and `proxy_callers`; `changing_file` reads their files again.
- `read_tokens`: lets a browser follow one request without credentials.
- `file_checks`: whether the files that the settings name can be used.
"""
