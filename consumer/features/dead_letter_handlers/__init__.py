"""Handlers of dead letters: a user's function that is given each letter of a topic.

```python
from onceward import Request, handler


@handler(dead_letters_of="payments", on_error="retry")
def file_ticket(request: Request) -> None:
    letter = request.dead_letter
    tickets.open(letter.request_id, letter.reason, letter.stacktrace)
```

A letter that is handled is a request like any other: read from `<topic>.<group>.dlq`, committed,
claimed, run at most once. `on_error` is the meaning of an error of the handler. `declaring` has its
options and its topic once the group is known. `Endless` says how long it waits for its next run.
`dead_letter` is the handler's argument; `letter_topics` makes the topic if there is none. The id
and the place of a letter are in `feedback.records.dead_letters`, since the resender needs them too.

Decisions, and their cost. Its id derives from the letter, so one that Kafka has twice is handled
once, and the row of the request that failed is never touched. Its deadline is its own: that of the
request is mostly over. A letter that cannot be handled is counted and no more: there are no dead
letters of dead letters, and nothing goes round in a circle.
"""
