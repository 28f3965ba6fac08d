"""Records: what they carry beside the user's bytes. Pure, but for the schemas' library.

- `envelope`: id, attempt, deadline, trace context. `failure_headers`: why a record was set aside.
- `dead_letters`, `dead_letter_topics`, `retry_group`: names that several rooms must agree on.
- `schemas` and `json_schemas` check values; `stored_payload` is the payload kept for a resend.
"""
