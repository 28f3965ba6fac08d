"""Records: their headers, ids and schemas. Pure, but for the library that checks JSON Schemas.

- `envelope`: id, attempt, deadline, trace context. `failure_headers`: the reason and origin of a
  dead letter or a retry.
- `dead_letters`, `dead_letter_topics`, `retry_group`: names that several rooms must agree on.
- `schemas` and `json_schemas` check values, `schema_faults` are their errors; `stored_payload` is
  the payload stored for a resend.
"""
