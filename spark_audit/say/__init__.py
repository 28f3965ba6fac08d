"""The judged day for its readers: a page, files, metrics.

- `summary` is the day in numbers, beside earlier days (`history`, with the table and the strip of
  days), and posts the verdict into a chat.
- `page` is for a person: `cards` of findings (with the `client_view` from Redis, and commands to
  `paste`), `charts`, and the words (`wording`).
- `findings_parquet` and `findings_csv` list the requests with findings.
- `resend_lines` are the requests that are safe to send again.
- `prometheus_file` holds the metrics.
"""
