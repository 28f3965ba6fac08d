"""The auditor's room: what became of each request, proved from the topics and the journal.

The way of a day, led by `run`, after `preparation` has looked at all that can be wrong before
Spark starts:

1. Freeze. `freeze` reads from Kafka how far each partition is read (`window` says which time is
   judged, `topics` what each topic is for, `day_end` where a day of long ago went; `kafka_asked`
   asks), and writes it down as the `manifest`.
2. Stage. `stage_records` reads Kafka by `record_columns` and `header_columns`, `stage_journal` the
   database by `jdbc` and `journal_sql`; both become a `snapshot`, whole or not at all. From here
   on nothing is asked of Kafka or the database again. `session` and `jars` give the Spark for it.
3. Judge. `judge` gathers all that is known of a request, `judged_places` says which of it is the
   day's, `judge_rules` what follows, by the names of `findings`. `gaps` looks at partitions,
   `sample` and `statuses` at what clients were told. `carry` names what is still open;
   `carried_file` keeps it for the next run.
4. Say. `counting` and `figures` make a `summary` of it, beside earlier days (`history`,
   `day_table`) and under the `verdict`; `page` is for a person (`headline`, the days before as a
   `strip`, `cards` of findings with what is `known` and what to `paste`, `charts`, `wording`,
   `texts`; `told` asks Redis), `findings_csv` and `resend_lines` (with `payloads`) for who puts it
   right, `prometheus_file` and `webhook` for who is on call. `findings_parquet` and `found` hold
   single requests; `outputs` (`local_outputs`, `hadoop_outputs`) and `places` put all of it where
   it belongs: at a `location`, here or by a `hadoop_path`, with the `rights` of its readers;
   `opening` opens it. `run_lock` (`hadoop_lock`, by who is the `holder`) keeps it to one audit at
   a time, `stopping` lets that go in order. `commands` is `onceward-audit`; `pruning` cuts old
   days down.

Decisions taken, and their cost. The audit shares no code with the worker: the rules are written
down a second time, from the contract. It judges from a snapshot, which costs the disk a copy of the
day and makes every verdict repeatable. Only Spark's own columns are used, so no Python runs where
the data is.

Not obvious. What a later window holds is read too, since a late attempt may be why a request is not
lost; but only requests of the window, and those carried into it, are judged. Findings are flags: a
request may be lost and malformed.
"""
