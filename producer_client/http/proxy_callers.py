"""Callers that a proxy has authenticated, and names in a header."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from feedback.web.proxy_header import ProxyHeader
from producer_client.http.callers import Caller, NotAuthenticated


class ProxyCallers:
    """Recognises callers by a header that only the proxy's addresses may send.

    Args:
        addresses: see `ProxyHeader`.
        header: its name.

    Raises:
        SettingsError: one of them is no network.
    """

    def __init__(self, addresses: Iterable[str], header: str) -> None:
        self._header = ProxyHeader(addresses, header, section="http")

    def caller_of(self, headers: Mapping[str, str], address: str) -> Caller | None:
        """Return the caller that the proxy names; None where nobody is named.

        Raises:
            NotAuthenticated: somebody else sends the header, or it is no name.
        """
        try:
            name = self._header.name_of(headers, address)
        except ValueError as error:
            raise NotAuthenticated(str(error)) from None
        return None if name is None else Caller(f"user:{name}")
