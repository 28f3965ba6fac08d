"""The ways to recognise callers, together: headers of strangers, proxies, loopback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from feedback.errors import NotAvailable, SettingsError
from feedback.settings.http_section import HttpSection
from producer_client.http.authentication import authentication_of
from producer_client.http.callers import ANONYMOUS, NotAuthenticated
from producer_client.http.keys import KeyFile

STRANGER = "203.0.113.9"
PROXIES = ("10.0.0.7", "192.168.4.0/24", "fd00::/8")


def name(section: HttpSection, headers: Mapping[str, str], address: str = STRANGER) -> str | None:
    """Return the caller's name; None for one that is refused."""
    try:
        return authentication_of(section).caller(headers, address).name
    except NotAuthenticated as error:
        assert not any(value and value in error.reason for value in headers.values())
        return None


@pytest.fixture
def key(tmp_path: Path) -> tuple[str, str]:
    """The file of a key, and its text."""
    path = tmp_path / "keys.json"
    return str(path), KeyFile(path).create("shop", submit=None, read=None)[1]


@pytest.mark.parametrize(
    ("template", "is_known"),
    [
        ("Bearer {}", True),
        ("bearer   {} \t", True),
        ("{}", False),
        ("Basic {}", False),
        ("Bearer", False),
        ("Bearer {}\nBearer {}", False),
        ("Bearer {}, Bearer {}", False),
        ("Bearer {}\n", False),
        ("Bearer {}\x00", False),
        ("Bearer {}\u00e9", False),
        ("Bearer\u00a0{}", False),
        ("Bearer " + "a" * 8193, False),
        ("Bearer " + "a" * 1_000_000, False),
        ("Bearer a.b.c", False),
        ("", False),
    ],
)
def test_a_key_comes_as_one_bearer(key: tuple[str, str], template: str, is_known: bool) -> None:
    path, text = key
    found = name(HttpSection(keys_file=path), {"authorization": template.replace("{}", text)})
    assert found == ("key:shop" if is_known else None)


def test_no_credentials_and_wrong_ones_have_their_challenge(key: tuple[str, str]) -> None:
    door = authentication_of(HttpSection(keys_file=key[0]))
    for headers, challenge in (
        ({}, "Bearer"),
        ({"authorization": "Bearer onceward_x"}, 'Bearer error="invalid_token"'),
    ):
        with pytest.raises(NotAuthenticated) as refused:
            door.caller(headers, STRANGER)
        assert refused.value.challenge == challenge


@pytest.mark.parametrize(
    ("address", "given", "found"),
    [
        ("10.0.0.7", "alice", "user:alice"),
        ("192.168.4.255", " alice\t", "user:alice"),
        ("::ffff:10.0.0.7", "alice", "user:alice"),
        ("fd00::1", "alice", "user:alice"),
        ("fd00::1%eth0", "alice", "user:alice"),
        ("10.0.0.7", "Zoë".encode().decode("latin-1"), "user:Zoë"),
        ("10.0.0.7", "cn=alice, ou=shop", "user:cn=alice, ou=shop"),
        ("10.0.0.7", "Zoë", None),
        ("10.0.0.7", "\U0001f600", None),
        ("10.0.0.7", "alice\nbob", None),
        ("10.0.0.7", "alice\u202e".encode().decode("latin-1"), None),
        ("10.0.0.7", "", None),
        ("10.0.0.7", "a" * 257, None),
        ("10.0.0.8", "alice", None),
        ("192.168.5.1", "alice", None),
        ("fe80::1", "alice", None),
        ("127.0.0.1", "alice", None),
        ("", "alice", None),
        ("10.0.0.7, 10.0.0.7", "alice", None),
        ("testclient", "alice", None),
    ],
)
def test_a_proxy_alone_may_name_a_caller(address: str, given: str, found: str | None) -> None:
    section = HttpSection(host="0.0.0.0", proxy_addresses=PROXIES, proxy_header="X-User")
    assert name(section, {"x-user": given}, address) == found


def test_a_client_that_names_itself_is_refused_also_with_a_key(key: tuple[str, str]) -> None:
    path, text = key
    section = HttpSection(keys_file=path, proxy_addresses=PROXIES)
    credentials = {"authorization": f"Bearer {text}"}
    named = {"x-forwarded-user": "shop"}
    assert name(section, credentials) == "key:shop"
    assert name(section, credentials | named) is None
    # The proxy's word counts, and its user is not the caller of the key.
    assert name(section, credentials | named, "10.0.0.7") == "user:shop"
    assert name(section, credentials, "10.0.0.7") == "key:shop"
    assert name(section, {}, "10.0.0.7") is None
    # Where no proxy is set, the header is any header.
    assert name(HttpSection(keys_file=path), credentials | named) == "key:shop"


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"host": "127.0.0.1:8080"}, True),
        ({"host": "localhost"}, True),
        ({"host": "[::1]:8080"}, True),
        ({"host": "localhost:8080", "origin": "http://localhost:3000"}, True),
        ({"host": "localhost:8080", "origin": "https://shop.example"}, True),
        ({"host": "localhost:8080", "origin": "https://evil.example"}, False),
        ({"host": "localhost:8080", "origin": "null"}, False),
        ({"host": "localhost:8080", "origin": "http://localhost.evil.example"}, False),
        ({"host": "rebound.evil.example:8080"}, False),
        ({"host": "[::1"}, False),
        ({"host": "localhost\nlocalhost"}, False),
        ({}, False),
    ],
)
def test_anybody_is_let_in_on_loopback_but_no_page_of_a_stranger(
    headers: dict[str, str], is_let_in: bool
) -> None:
    section = HttpSection(cors_origins=("https://shop.example",))
    assert name(section, headers, "127.0.0.1") == (ANONYMOUS.name if is_let_in else None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "0.0.0.0"}, "keys_file, jwks or proxy_addresses"),
        ({"host": "::"}, "keys_file, jwks or proxy_addresses"),
        ({"host": "door.example"}, "keys_file, jwks or proxy_addresses"),
        ({"host": ""}, "keys_file, jwks or proxy_addresses"),
        ({"proxy_addresses": ("10.0.0.1/24",)}, "host bits"),
        ({"proxy_addresses": ("nginx",)}, "nginx"),
        ({"jwks": "https://id.example/jwks"}, "jwt_issuer"),
        ({"jwt_algorithms": ("HS256",)}, "choose of"),
        ({"jwt_algorithms": ("RS256", "none")}, "choose of"),
        ({"jwt_algorithms": ()}, "choose of"),
    ],
)
def test_wrong_settings_start_nothing(given: dict[str, Any], said: str) -> None:
    if "jwt_algorithms" in given:
        given = {"jwks": "x", "jwt_issuer": "x", "jwt_audience": "x", **given}
    with pytest.raises(SettingsError, match=said):
        authentication_of(HttpSection(**given))


@pytest.mark.parametrize(
    "given", [{"keys_file": "none"}, {"jwks": "none", "jwt_issuer": "x", "jwt_audience": "x"}]
)
def test_a_file_that_is_not_there_starts_nothing(given: dict[str, str]) -> None:
    with pytest.raises(NotAvailable):
        authentication_of(HttpSection(**given))
