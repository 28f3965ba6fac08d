"""The addresses of the pages by which a person comes in, and of a request's page."""

from __future__ import annotations

from urllib.parse import quote

LOGIN, LOGOUT = "/login", "/logout"
OIDC = f"{LOGIN}/oidc"
OIDC_BACK = f"{OIDC}/back"
SEE_OTHER = 303
REQUEST = "/request"


def request_address(request_id: str, query: str = "") -> str:
    """Return the address of a request's page.

    No path has an id: a browser or a proxy takes parts of it for steps, and it would lead to the
    page of another request, also where a person types it.

    Args:
        query: further fields, as an address has them.

    >>> request_address("0198f0c0"), request_address("x/../0198f0c0", "letters=yes")
    ('/request?id=0198f0c0', '/request?id=x%2F..%2F0198f0c0&letters=yes')
    """
    return f"{REQUEST}?id={quote(request_id, safe='')}" + (f"&{query}" if query else "")


def within(where: str) -> str:
    """Return a path of this console: another host's address becomes one.

    >>> within("//evil.example/x"), within("/letters?topic=pay")
    ('/evil.example/x', '/letters?topic=pay')
    """
    return "/" + where.lstrip("/\\ \t\r\n")
