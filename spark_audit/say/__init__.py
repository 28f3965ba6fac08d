"""The judged day for its readers: a page, files, metrics.

- `summary` is the day in numbers, beside earlier days (`history`, from the `day_table`).
- `page` is for a person: `headline`, `strip` of days, `cards` of findings (with `known_facts`, the
  `client_view` from Redis, and the commands to `paste`), `charts`, and the words (`wording`).
- `finding_row` is one request; `findings_parquet`, `findings_csv` and `status_disagrees` list them.
- `resend_lines` (with `resend_payloads`) are the requests that are safe to send again.
- `prometheus_file` holds the metrics.
"""
