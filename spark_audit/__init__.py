"""The auditor's room: the end of each request, proved from the topics and the journal.

The way of a day, led by `run/audit`:

1. Freeze and stage (`stage/`): the limits of each partition are written down as the manifest; Kafka
   and the journal are read once, into a snapshot. From here on neither is asked again.
2. Judge (`judge/`): everything that is known of a request meets the rules; the open requests are
   carried over to the next day. `findings` are the names of the results.
3. Say (`say/`): the page, the files, the metrics; `run/` turns the verdict into an exit code.

`output/` writes folders that are whole or absent, `spark` makes the session.

Decisions taken, and their cost. The audit shares no code with the worker: the rules are written
down a second time, from the documentation. It judges from a snapshot, which costs the disk a copy
of the day and makes every verdict repeatable. Only Spark's own columns are used, so no Python runs
where the data is.

Not obvious. Records of a later window are read too, since a late attempt may be why a request is
not lost; but only requests of the window, and those carried into it, are judged. Findings are
flags: a request may be lost and malformed.
"""
