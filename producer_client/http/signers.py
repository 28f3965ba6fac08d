"""The public keys of an identity provider (a JWKS), from a file or an https address.

The file is read again when it has changed. An address is asked in a thread: at the start, every
`FRESH_S`, and when a token names a key that is not among them. While the provider is away the keys
are used for `LASTING_S`, so that a key it has withdrawn ends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from feedback.clock import monotonic_s
from feedback.errors import SettingsError
from feedback.logs import EventLog
from feedback.web.hosts import is_loopback
from producer_client.http.callers import SignersUnknown, invalid
from producer_client.http.changing_file import ChangingFile

log = EventLog("onceward.http")

SETTING = "[http] jwks"
FRESH_S = 300.0
LASTING_S = 3600.0
# Tokens with invented key ids, and an address that fails, are no reason to ask more often.
BETWEEN_S = 10.0
AFTER_FAILURE_S = 1.0
TIMEOUT_S = 5.0
_MOST_BYTES = 2**20

# By key type, and curve where it has one: the algorithms it can verify. Those with a shared secret
# are missing on purpose: a public key would be taken for the secret.
FITTING: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
ALGORITHMS = tuple(one for fitting in FITTING.values() for one in fitting)

# By key id and algorithm.
Keys = Mapping[tuple[str | None, str], PyJWK]


class Signers(Protocol):
    """The public keys, wherever they are from."""

    def key(self, key_id: str | None, algorithm: str) -> PyJWK:
        """Return the key that a token names.

        Raises:
            NotAuthenticated: there is none.
            NotAvailable: nobody can know now.
        """


class SignersOfFile:
    """The keys of a file.

    Raises:
        NotAvailable: it cannot be read.
    """

    def __init__(self, path: Path, algorithms: Collection[str]) -> None:
        self._file = ChangingFile(SETTING, path, lambda content: parsed(content, algorithms))
        self._file.current()

    def key(self, key_id: str | None, algorithm: str) -> PyJWK:
        """Return the key of this id and algorithm."""
        found = found_in(self._file.current(), key_id, algorithm)
        if found is None:
            raise invalid("its key is unknown")
        return found


class SignersOfAddress:
    """The keys at an address.

    Args:
        clock: seconds that only grow; tests give their own.
    """

    def __init__(
        self, url: str, algorithms: Collection[str], *, clock: Callable[[], float] = monotonic_s
    ) -> None:
        self._url = url
        self._algorithms = algorithms
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Keys = {}
        self._fetched_s = self._asked_s = float("-inf")
        self._fetching: Future[None] | None = None
        self._fetch()

    def key(self, key_id: str | None, algorithm: str) -> PyJWK:
        """Return the key of this id and algorithm."""
        age_s = self._clock() - self._fetched_s
        if age_s > FRESH_S:
            fetched = self._fetch()
            if age_s > LASTING_S:
                raise SignersUnknown("the keys of the identity provider are not here", fetched)
        found = found_in(self._keys, key_id, algorithm)
        if found is not None:
            return found
        if age_s < BETWEEN_S:
            raise invalid("its key is unknown")
        raise SignersUnknown("the key of a token is not known yet", self._fetch())

    def _fetch(self) -> Future[None]:
        """Ask in a thread, unless one asks or has just failed; done when the answer is here."""
        with self._lock:
            if self._fetching is not None:
                return self._fetching
            done: Future[None] = Future()
            # Nobody who waits for it can cancel it for the others.
            done.set_running_or_notify_cancel()
            if self._clock() - self._asked_s < AFTER_FAILURE_S:
                done.set_result(None)
                return done
            self._fetching = done
        threading.Thread(target=self._ask, args=(done,), name="onceward-jwks", daemon=True).start()
        return done

    def _ask(self, done: Future[None]) -> None:
        try:
            self._keys = parsed(_content_of(self._url), self._algorithms)
            self._fetched_s = self._clock()
        except (OSError, ValueError, RecursionError) as error:
            log.warning("http.keys_away", url=self._url, error=type(error).__name__)
        finally:
            with self._lock:
                self._asked_s = self._clock()
                self._fetching = None
            done.set_result(None)


def _content_of(url: str) -> bytes:
    # Where it redirects to, nobody has said that we may trust.
    with requests.get(url, timeout=TIMEOUT_S, allow_redirects=False, stream=True) as answer:
        if answer.status_code != requests.codes.ok:
            raise ValueError(answer.status_code)
        content = answer.raw.read(_MOST_BYTES, decode_content=True)
        return bytes(content)


def parsed(content: bytes, algorithms: Collection[str]) -> Keys:
    """Return the keys of a JWKS that these algorithms can use.

    Raises:
        ValueError: it is none.
    """
    document = json.loads(content)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no JWKS")
    keys: dict[tuple[str | None, str], PyJWK] = {}
    for one in listed:
        if isinstance(one, dict) and one.get("use", "sig") == "sig":
            _enter(keys, one, algorithms)
    return keys


def _enter(
    keys: dict[tuple[str | None, str], PyJWK], one: dict[str, Any], algorithms: Collection[str]
) -> None:
    key_id, type_, curve = one.get("kid"), one.get("kty"), one.get("crv")
    if not isinstance(key_id, str | None) or not isinstance(type_, str):
        return
    fitting = FITTING.get((type_, curve if isinstance(curve, str) else None), ())
    for algorithm in fitting:
        if algorithm in algorithms and one.get("alg", algorithm) == algorithm:
            try:
                keys[key_id, algorithm] = PyJWK(one, algorithm)
            except (PyJWTError, ValueError, TypeError):
                continue  # providers list keys of kinds that we do not know


def found_in(keys: Keys, key_id: str | None, algorithm: str) -> PyJWK | None:
    """Return the key of a token; one that names none has it where there is no choice."""
    if key_id is not None:
        return keys.get((key_id, algorithm))
    fitting = [key for (_, one), key in keys.items() if one == algorithm]
    return fitting[0] if len(fitting) == 1 else None


def signers_of(jwks: str, algorithms: Collection[str]) -> Signers:
    """Return the keys of a file or an address.

    Raises:
        SettingsError: the address is none that can be trusted.
        NotAvailable: the file cannot be read.
    """
    scheme, host = urlsplit(jwks).scheme, urlsplit(jwks).hostname or ""
    if scheme not in ("http", "https"):
        return SignersOfFile(Path(jwks), algorithms)
    if not host or (scheme == "http" and not is_loopback(host)):
        raise SettingsError(f"{SETTING}: begin with https:// and name a host, or name a file")
    return SignersOfAddress(jwks, algorithms)
