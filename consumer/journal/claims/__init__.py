"""Claims: who may run a request, and how a run ends; each kind of write for a whole batch.

- `verdict`: the rules of claims, pure. `takeover_rule`: how a run without an end may be followed,
  pure; `takeover` carries it out.
- `claiming`, `skipping` (refusals too), `finishing`: the writes; `claim_sql` has the statements
  that they share.
- `forgetting`: keeps pruned requests from running again.
"""
