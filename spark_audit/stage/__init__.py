"""Freeze and stage: the limits of a day are written down once, then all is read once.

- `freeze` decides how far each partition is read, by the `window`, which finds the end of a day of
  long ago, and the `audited_topics`. The `manifest` keeps the limits. `chain` says which day judges
  which offset (`chain_columns`: in Spark); `days` are the manifests that an output folder has.
- `stage_records` reads Kafka by `record_columns`; `stage_journal` reads the database by `jdbc` and
  `journal_sql`. Both become a `snapshot`, whole or not at all.
- `gaps` finds offsets that no record explains; compaction and aborted transactions explain some.
  `hanging` finds transactions that are open since before a day's end.
"""
