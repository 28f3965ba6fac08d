"""Sends letters back to their topics, so that each failed request runs once more.

`commands` reads the command line, `endings` prints, lists and cancels. `redrive_session` begins,
resumes and rehearses a redrive, with its connections. `redrive_plan` is the plan that the journal
stores, with the value that `--set` or `--value` replaces. `loop` goes through the letters: it reads
one page ahead, and reopens a batch while `batch_sender` sends the batch before. `record` makes the
records to send, and finds those that a killed redrive has sent. `progress` counts, and knows the
pages that are done and those under way. `unjournaled` sends letters of other systems back where no
journal is asked, by `sent_traces`. `risks` warns of letters that may run twice, pure.
"""
