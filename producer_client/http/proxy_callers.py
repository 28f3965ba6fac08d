"""Callers that a proxy has authenticated, and names in a header."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from feedback.errors import SettingsError
from producer_client.http.callers import Caller, NotAuthenticated

_MOST_CHARACTERS = 256


class ProxyCallers:
    """Recognises callers by a header that only the proxy's addresses may send.

    Args:
        addresses: addresses and networks, as "10.0.0.7" and "fd00::/8".
        header: its name.

    Raises:
        SettingsError: one of them is no network.
    """

    def __init__(self, addresses: Iterable[str], header: str) -> None:
        try:
            self._networks = [ip_network(one) for one in addresses]
        except ValueError as error:
            raise SettingsError(f"[http] proxy_addresses: {error}") from error
        self._header = header.lower()

    def caller_of(self, headers: Mapping[str, str], address: str) -> Caller | None:
        """Return the caller that the proxy names; None where nobody is named.

        Raises:
            NotAuthenticated: somebody else sends the header, or it is no name.
        """
        given = headers.get(self._header)
        if given is None:
            return None
        if not self._is_proxy(address):
            raise NotAuthenticated("it names a caller, and is no proxy")
        try:
            # HTTP libraries decode header bytes as Latin-1; names are UTF-8.
            name = given.strip(" \t").encode("latin-1").decode()
        except ValueError:
            raise NotAuthenticated("its proxy names a caller that is no UTF-8") from None
        if not name or len(name) > _MOST_CHARACTERS or not name.isprintable():
            raise NotAuthenticated("its proxy names no caller, or several")
        return Caller(f"user:{name}")

    def _is_proxy(self, address: str) -> bool:
        try:
            peer: IPv4Address | IPv6Address = ip_address(address)
        except ValueError:
            return False
        # A socket for both versions shows an IPv4 peer like this.
        peer = getattr(peer, "ipv4_mapped", None) or peer
        return any(peer in one for one in self._networks)
