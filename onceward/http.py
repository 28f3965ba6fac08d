"""The front door in an application that exists (docs: A front door)."""

from typing import TYPE_CHECKING

from producer_client.http.callers import Authentication, Caller, NotAuthenticated

if TYPE_CHECKING:
    from producer_client.http.django_urls import django_urls
    from producer_client.http.flask_blueprint import flask_blueprint
    from producer_client.http.starlette_app import routes
else:
    from feedback.lazy import lazy_names

    # Each needs a framework of its own.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "producer_client.http.django_urls": ("django_urls",),
            "producer_client.http.flask_blueprint": ("flask_blueprint",),
            "producer_client.http.starlette_app": ("routes",),
        },
    )

__all__ = [
    "Authentication",
    "Caller",
    "NotAuthenticated",
    "django_urls",
    "flask_blueprint",
    "routes",
]
