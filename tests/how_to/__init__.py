"""The how-to guides are used: their handlers run, their commands are typed, in the page's order.

`commands` takes the commands of a page, pure. `test_commands` reads each with the parser of its own
command, inline ones too. `test_pages` loads the handlers of the pages into one worker on real
servers, sends to each, and types the commands of the pages that repair and pause.

What stands elsewhere: pages of clients and outbox show files of `tests/producer_client`, lifespans
one of `tests/consumer`, and the tests of handlers are run by `tests/face/test_testing.py`.
"""
