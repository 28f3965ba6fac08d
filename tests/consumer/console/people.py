"""People of a console under test: their file, and their browsers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from consumer.console.people import ConsoleRole, person_line
from feedback.settings.settings import Settings
from tests.kit.no_authorities import NO_AUTHORITIES

PASSWORD = "correct horse, battery staple"
ROLES = {
    "vera": (),
    "olga": (ConsoleRole.OPERATOR,),
    "otto": (ConsoleRole.OPERATOR,),
    "paul": (ConsoleRole.PAYLOAD_READER,),
    "petra": (ConsoleRole.OPERATOR, ConsoleRole.PAYLOAD_READER),
}


@lru_cache
def lines() -> str:
    """Return the file of all of them; each has the same password."""
    return "".join(f"{person_line(name, roles, PASSWORD)}\n" for name, roles in ROLES.items())


def with_people(settings: Settings, folder: Path, **section: Any) -> Settings:
    """Return settings of a console that these people may use."""
    path = folder / "people"
    path.write_text(lines())
    given = {"users_file": str(path), **section}
    return settings.model_copy(update={"console": settings.console.model_copy(update=given)})


class Browser:
    """A person's browser: its cookies, and what it sends with a form."""

    def __init__(self, console: httpx.Client, **headers: str) -> None:
        self.http = httpx.Client(
            base_url=console.base_url, timeout=console.timeout, verify=NO_AUTHORITIES
        )
        self.http.headers.update(headers)

    def login(self, name: str, password: str = PASSWORD) -> httpx.Response:
        """Log in."""
        return self.send("/login", page="/login", name=name, password=password)

    def token(self, page: str) -> str:
        """Return the token of a page's forms."""
        found = re.search(r'name="token" value="([^"]+)"', self.http.get(page).text)
        return found[1] if found else ""

    def send(self, path: str, *, page: str = "/audit", **fields: str) -> httpx.Response:
        """Send a form with the token of a page, as a browser does."""
        origin = str(self.http.base_url).rstrip("/")
        headers = {"origin": origin, "sec-fetch-site": "same-origin"}
        fields = {"token": self.token(page), **fields}
        return self.http.post(path, data=fields, headers=headers)

    def form(self, act: str, page: str) -> dict[str, str]:
        """Return the hidden fields of a page's form, as they stand there now."""
        text = self.http.get(page).text
        found = re.search(rf'<form [^>]*action="/act/{act}[#"].*?</form>', text, re.DOTALL)
        assert found is not None, f"{page} has no form to {act}"
        fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', found[0])
        return {name: unescape(value) for name, value in fields if name != "token"}


@contextmanager
def browsing(console: httpx.Client, **headers: str) -> Iterator[Browser]:
    """Yield a browser of somebody."""
    one = Browser(console, **headers)
    with one.http:
        yield one


@contextmanager
def logged_in(console: httpx.Client, *names: str) -> Iterator[tuple[Browser, ...]]:
    """Yield the browsers of people who have logged in."""
    with ExitStack() as stack:
        found = tuple(stack.enter_context(browsing(console)) for _ in names)
        for name, one in zip(names, found, strict=True):
            assert one.login(name).status_code == 303
        yield found
