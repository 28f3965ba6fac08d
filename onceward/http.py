"""The front door in an application that exists: `pip install 'onceward[http]'`."""

from producer_client.http.callers import Authentication, Caller, NotAuthenticated
from producer_client.http.starlette_app import routes

__all__ = ["Authentication", "Caller", "NotAuthenticated", "routes"]
