"""Freeze and stage: the limits of a day are written down once, then all is read once.

- `freeze` decides how far each partition is read, by the `window`, the `audited_topics` and, for a
  day of long ago, its `day_end`. The `manifest` keeps the limits. `chain` says which day judges
  which offset (`chain_columns`: in Spark); `days` are the manifests that an output folder has.
- `stage_records` reads Kafka by `record_columns` and `header_columns`; `stage_journal` reads the
  database by `jdbc` and `journal_sql`, after `journal_version` has looked at it. Both become a
  `snapshot`, whole or not at all.
- `gaps` finds offsets that no record explains; `compaction` and `aborted` explain some.
"""
