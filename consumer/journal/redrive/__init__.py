"""A person's word on failures and doubts: sent back, resolved, discarded, and that undone.

- `redrive_work`: redrives, begun, found, taken over (`redrive_row`), and one at work.
- `redrive_rule`: which failures may be sent back, pure; `reopening` carries it out, and says what
  was taken and perhaps not sent.
- `resolving`: a person's decision about one request.
- `other_system`: a failure in another system of a record that has a row here, pure.
- `later_successes`: requests of a failure's key that have succeeded after it.
"""
