"""A header in which a proxy names the person or program whose request it passes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from feedback.errors import SettingsError

_MOST_CHARACTERS = 256


class ProxyHeader:
    """Reads names from a header that only the proxy's addresses may send.

    Args:
        addresses: addresses and networks, as "10.0.0.7" and "fd00::/8".
        header: its name.
        section: of the settings that has them, for errors.

    Attributes:
        header: its name in lower case.

    Raises:
        SettingsError: one of the addresses is no network.
    """

    def __init__(self, addresses: Iterable[str], header: str, *, section: str) -> None:
        try:
            self._networks = [ip_network(one) for one in addresses]
        except ValueError as error:
            raise SettingsError(f"[{section}] proxy_addresses: {error}") from error
        self.header = header.lower()

    def name_of(self, headers: Mapping[str, str], address: str) -> str | None:
        """Return the name that the proxy gives; None where nobody is named.

        Raises:
            ValueError: somebody else sends the header, or it is no name.
        """
        given = headers.get(self.header)
        if given is None:
            return None
        if not self._is_proxy(address):
            raise ValueError("it names a caller, and is no proxy")
        try:
            # HTTP libraries decode header bytes as Latin-1; names are UTF-8.
            name = given.strip(" \t").encode("latin-1").decode()
        except ValueError:
            raise ValueError("its proxy names a caller that is no UTF-8") from None
        if not name or len(name) > _MOST_CHARACTERS or not name.isprintable():
            raise ValueError("its proxy names no caller, or several")
        return name

    def _is_proxy(self, address: str) -> bool:
        try:
            peer: IPv4Address | IPv6Address = ip_address(address)
        except ValueError:
            return False
        # A socket for both versions shows an IPv4 peer like this.
        peer = getattr(peer, "ipv4_mapped", None) or peer
        return any(peer in one for one in self._networks)
