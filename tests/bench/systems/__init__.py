"""The systems under test, each started anew for a round and stopped after it.

`onceward` and each `peer` start worker and submitting process (`trial` is what they give back);
`onceward_client`, `celery_client`, `celery_tasks`, `dramatiq_client`, `dramatiq_tasks`,
`faststream_client` and `faststream_app` run in those. `celery`, `dramatiq` and `faststream` say how
each of the `peers` is started, with which settings and which promise; `environments` makes the
virtual environment of each, once.
"""
