"""The outbox as an app of Django: `INSTALLED_APPS = [..., "onceward.django"]`.

Its migration (`migrations`) makes the outbox's tables. `Client.send(..., using="default")` then
writes a request in Django's own transaction; see `producer_client.outbox.django_writing`. The app
(`apps`) has no models: rows belong to the relay.
"""
