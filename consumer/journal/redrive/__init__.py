"""A person's word on failures and doubts: sent back, resolved, discarded, and that undone.

- `redrive_work`: redrives, begun, found, taken over (`redrive_row`), and one at work.
- `redrive_rule`: which failures may be sent back, pure; `reopening` carries it out, and says what
  was taken and perhaps not sent.
- `resolving`: a person's decision about one request.
- `other_system`: a failure in another system of a record that has a row here, pure.
- `later_requests`: the requests of its key after a failure, by how they stand.
"""
