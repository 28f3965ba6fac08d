"""The systems under test, each started anew for a round and stopped after it.

`onceward` and `celery` start worker and submitting process (`trial` is what they give back);
`onceward_client`, `celery_client` and `celery_tasks` are what runs in those. `celery_environment`
makes the virtual environment of Celery, once.
"""
