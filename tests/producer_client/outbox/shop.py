"""A Django project of one model, and the README's example of a send in its transaction."""

from typing import Any

import django
from django.conf import settings
from django.db import connections

from producer_client import Client, Handle

if not settings.configured:
    settings.configure(
        INSTALLED_APPS=["onceward.django"],
        DATABASES={"default": {}, "other": {}},
        USE_TZ=True,
    )
    django.setup()

from django.db import models, transaction


class Order(models.Model):  # type: ignore[misc]  # Django has no types
    """An order, of which a payment is asked for."""

    customer = models.TextField()

    class Meta:
        app_label = "shop"


# example:begin
def place(client: Client, customer: str) -> Handle:
    """Place an order and ask for its payment: both or neither."""
    with transaction.atomic():
        order = Order.objects.create(customer=customer)
        return client.send(
            {"order": order.pk},
            key=customer,
            topic="payments",
            request_id=f"order-{order.pk}",
            using="default",
        )


# example:end


def use_databases(**databases: dict[str, Any]) -> None:
    """Let these be Django's databases from now on; connections to others are closed."""
    connections.close_all()
    for alias in list(connections.databases):
        if hasattr(connections._connections, alias):
            del connections[alias]
    known = connections.configure_settings({"default": {}, **databases})
    connections.databases.clear()
    connections.databases.update(known)
