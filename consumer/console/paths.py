"""The addresses of the pages by which a person comes in."""

from __future__ import annotations

LOGIN, LOGOUT = "/login", "/logout"
OIDC = f"{LOGIN}/oidc"
OIDC_BACK = f"{OIDC}/back"
SEE_OTHER = 303


def within(where: str) -> str:
    """Return a path of this console: another host's address becomes one.

    >>> within("//evil.example/x"), within("/letters?topic=pay")
    ('/evil.example/x', '/letters?topic=pay')
    """
    return "/" + where.lstrip("/\\ \t\r\n")
