"""The front door's pages in an application of each framework, served by a server of its kind."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from types import ModuleType
from typing import Any

import httpx
from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.test.utils import override_settings
from django.urls import include, path
from fastapi import FastAPI
from flask import Flask, request
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.serving import make_server

from feedback.settings.settings import Settings
from producer_client import AsyncClient
from producer_client.http.callers import Caller
from producer_client.http.django_urls import urls_of
from producer_client.http.flask_blueprint import blueprint_of
from producer_client.http.starlette_app import routes
from producer_client.http.threads import PagesForThreads
from tests.kit.no_authorities import NO_AUTHORITIES
from tests.producer_client.http.conftest import LIMIT_S, AppServer, NamedByHeader

# Where each application has the pages.
PREFIX = "/pay"


@contextmanager
def starlette_site(settings: Settings) -> Iterator[httpx.Client]:
    """Yield a client of a Starlette application."""
    client = AsyncClient(settings)
    pages = Mount(PREFIX, routes=routes(client, NamedByHeader()))
    with closing(AppServer(Starlette(routes=[pages], lifespan=_lifespan(client)))) as server:
        yield server.http


@contextmanager
def fastapi_site(settings: Settings) -> Iterator[httpx.Client]:
    """Yield a client of a FastAPI application."""
    client = AsyncClient(settings)
    app = FastAPI(lifespan=_lifespan(client))
    app.router.routes.append(Mount(PREFIX, routes=routes(client, NamedByHeader())))
    with closing(AppServer(app)) as server:
        yield server.http


@contextmanager
def flask_site(settings: Settings) -> Iterator[httpx.Client]:
    """Yield a client of a Flask application."""
    with closing(PagesForThreads(settings)) as pages:
        app = Flask(__name__)
        blueprint = blueprint_of(pages, lambda: _named(request.headers))
        app.register_blueprint(blueprint, url_prefix=PREFIX)
        with wsgi_served(app) as http:
            yield http


@contextmanager
def django_site(settings: Settings, *, is_async: bool) -> Iterator[httpx.Client]:
    """Yield a client of a Django project, under WSGI or ASGI."""
    with closing(PagesForThreads(settings)) as pages:
        urls = urls_of(pages, lambda one: _named(one.headers))
        module = ModuleType("urls")
        module.__dict__["urlpatterns"] = [path(f"{PREFIX.removeprefix('/')}/", include(urls))]
        with django_served(module, is_async=is_async) as http:
            yield http


@contextmanager
def django_served(urls: Any, *, is_async: bool) -> Iterator[httpx.Client]:
    """Yield a client of a Django project with these URLs."""
    if not django_settings.configured:
        django_settings.configure()
    middleware = ["django.middleware.csrf.CsrfViewMiddleware"]
    given = {"ROOT_URLCONF": urls, "ALLOWED_HOSTS": ["*"], "MIDDLEWARE": middleware}
    with override_settings(**given, LOGGING_CONFIG=None):
        if is_async:
            with closing(AppServer(get_asgi_application(), lifespan="off")) as server:
                yield server.http
        else:
            with wsgi_served(get_wsgi_application()) as http:
                yield http


@contextmanager
def wsgi_served(app: Any) -> Iterator[httpx.Client]:
    """Yield a client of a WSGI application that is served by threads."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        at = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=at, timeout=LIMIT_S, verify=NO_AUTHORITIES) as http:
            yield http
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _named(headers: Any) -> Caller:
    return NamedByHeader().caller({name.lower(): value for name, value in headers.items()}, "")


def _lifespan(client: AsyncClient) -> Callable[[Any], Any]:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with client:
            yield

    return lifespan


SITES: dict[str, Callable[[Settings], Any]] = {
    "starlette": starlette_site,
    "fastapi": fastapi_site,
    "flask": flask_site,
    "django": lambda settings: django_site(settings, is_async=False),
    "django-asgi": lambda settings: django_site(settings, is_async=True),
}
