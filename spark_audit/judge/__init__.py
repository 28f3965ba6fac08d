"""The judgement: the records and rows of a snapshot become findings, counts and a verdict.

- `prefilter` only counts the plain requests, so that few are left. `judge` gathers everything that
  is known of each, `judged_places` says which day it belongs to, `allowed_times` how long it may
  wait, `judge_rules` and `letter_rules` are the rules, over `row_facts` among others; `judged_day`
  leads this way.
- `carry_over` names the requests that stay open, and keeps them for the next run.
- `sample` and `status_check` compare the statuses of clients with the journal.
- `figures` counts in Spark and adds up; `day_verdict` says what makes the day incomplete, and the
  exit code that follows.
"""
