"""Whether an address is this host's own."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this host can reach the address.

    >>> [is_loopback(one) for one in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "shop.example")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
