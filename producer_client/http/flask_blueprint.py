"""The front door's pages as a blueprint of Flask: `pip install 'onceward[flask]'`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry

from feedback.settings.settings import Settings
from producer_client.http.callers import Caller
from producer_client.http.pages import PAGES, STREAMED, PageAt
from producer_client.http.threads import PagesForThreads, ThreadStream


def flask_blueprint(
    settings: Settings | Path | str | None,
    caller_of: Callable[[], Caller],
    registry: CollectorRegistry | None = None,
) -> Blueprint:
    """Return the front door's pages, for a Flask application that exists.

    Args:
        settings: as for `Client`.
        caller_of: returns the caller of `flask.request`, or raises `NotAuthenticated`.
        registry: the application's metrics of Prometheus, to which the front door's are added.

    Raises:
        SettingsError, SchemaError: as for `Client`; or a topic's schema cannot be used.
    """
    return blueprint_of(PagesForThreads(settings, registry), caller_of)


def blueprint_of(pages: PagesForThreads, caller_of: Callable[[], Caller]) -> Blueprint:
    """Return these pages as a blueprint."""
    blueprint = Blueprint("onceward", __name__)

    def view(at: PageAt) -> Callable[..., Response]:
        def answer(**path: str) -> Response:
            found = pages.answer(
                at,
                headers=dict(request.headers),
                query=request.args,
                path=path,
                full_path=request.script_root + request.path,
                address=request.remote_addr or "",
                caller_of=caller_of,
                read=request.stream.read,
            )
            if isinstance(found, ThreadStream):
                return Response(found.for_thread(most_s=pages.stream_s), headers=STREAMED)
            response = Response(found.body, found.status, dict(found.headers))
            if "Content-Type" not in found.headers:
                del response.headers["Content-Type"]
            return response

        return answer

    for at in PAGES:
        rule = at.path.replace("{", "<").replace("}", ">")
        name = at.name.replace("-", "_")
        blueprint.add_url_rule(rule, name, view(at), methods=[at.method])
    return blueprint
