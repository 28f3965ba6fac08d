"""An S3-compatible server: S3Proxy on a port of its own, with its objects in memory.

Of several that create one object at once (`If-None-Match: *`) one does, by a PUT and by completing
a multipart upload; signatures are checked. `If-Match` is no comparison that holds there: of sixteen
at once up to five were told that they had replaced the same object.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlencode
from xml.etree import ElementTree

import requests

from onceward.servers.cache import cache_folder
from onceward.servers.jars import fetch
from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.launch import launch
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port
from tests.kit.packages import install_missing

POM = Path(__file__).parent / "s3proxy.xml"
TIMEOUT_S = 10.0
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
_LOGBACK = """<configuration>
<appender name="log" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %level %logger %msg%n</pattern></encoder>
</appender>
<root level="WARN"><appender-ref ref="log"/></root>
</configuration>
"""


def s3proxy_folder() -> Path:
    """Return the folder its jars belong into, there or not; named after the version in the POM."""
    return cache_folder() / f"s3proxy-{_version()}"


def fetch_s3proxy() -> bool:
    """Fetch its jars unless they are there; say whether they had to be fetched.

    Raises:
        StackError: see `fetch`.
    """
    return fetch(POM, s3proxy_folder(), "S3Proxy")


@cache
def _version() -> str | None:
    return ElementTree.parse(POM).findtext(".//{*}s3proxy.version")


@dataclass(frozen=True, slots=True)
class S3:
    """One server, and the only user that it knows.

    Args:
        secret: of the user; nothing that is printed or written may hold it.
    """

    kind: ClassVar[str] = "s3"

    port: int = field(default_factory=free_port)
    name: str = "s3"
    ready_within_s: float = 30.0
    key: str = field(default_factory=lambda: f"key-{secrets.token_hex(8)}")
    secret: str = field(default_factory=lambda: f"hush-{secrets.token_hex(16)}", repr=False)

    @property
    def address(self) -> str:
        """URL of its API."""
        return f"http://{HOST}:{self.port}"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Write its settings."""
        settings = {
            "s3proxy.endpoint": self.address,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.key,
            "s3proxy.credential": self.secret,
            "jclouds.provider": "transient-nio2",
        }
        lines = (f"{name}={value}\n" for name, value in settings.items())
        (folder / "s3.properties").write_text("".join(lines))
        (folder / "logback.xml").write_text(_LOGBACK)
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command."""
        argv = (
            *(program("java"), *_JVM, f"-Dlogback.configurationFile={folder}/logback.xml"),
            *("-cp", f"{s3proxy_folder()}/*", "org.gaul.s3proxy.Main"),
            *("--properties", str(folder / "s3.properties")),
        )
        return ServerCommand(argv=argv, folder=folder, log=folder / "s3.log")

    def answers(self, folder: Path) -> bool:
        """Say whether it answers, and knows this user: another one's would not."""
        try:
            return bool(self._ask("GET", "/").status_code == requests.codes.ok)
        except requests.RequestException:
            return False

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        self._ask("PUT", f"/{name}").raise_for_status()

    def objects(self, bucket: str, prefix: str) -> dict[str, str]:
        """Return the digest of the bytes of each object whose name begins so, by the rest of it."""
        answer = self._ask("GET", f"/{bucket}", f"?{urlencode({'prefix': prefix})}")
        answer.raise_for_status()
        listed = ElementTree.fromstring(answer.content)
        assert listed.findtext("{*}IsTruncated") == "false", "more than one answer holds"
        return {
            one.findtext("{*}Key", "").removeprefix(prefix): one.findtext("{*}ETag", "")
            for one in listed.iterfind("{*}Contents")
        }

    def copy(self, bucket: str, name: str, to: str) -> None:
        """Copy an object within its bucket, as the server does it."""
        self._ask("PUT", f"/{bucket}/{to}", copied=f"/{bucket}/{name}").raise_for_status()

    def _ask(
        self, method: str, path: str, query: str = "", *, copied: str = ""
    ) -> requests.Response:
        # The older signature of S3: a line of ours, where the newer one needs a library.
        date = formatdate(usegmt=True)
        source = {"x-amz-copy-source": copied} if copied else {}
        lines = [method, "", "", date, *(f"{name}:{one}" for name, one in source.items()), path]
        signed = hmac.digest(self.secret.encode(), "\n".join(lines).encode(), "sha1")
        told = {
            "Date": date,
            "Authorization": f"AWS {self.key}:{base64.b64encode(signed).decode()}",
            **source,
        }
        url = self.address + path + query
        return requests.request(method, url, headers=told, timeout=TIMEOUT_S)


@contextmanager
def s3_server() -> Iterator[S3]:
    """Yield a server without buckets, which ends with the block.

    Raises:
        StackError: it cannot be fetched, or did not start.
    """
    install_missing(["java", "mvn"])
    fetch_s3proxy()
    with Keeper() as keeper:
        server = launch(keeper, S3).server
        assert isinstance(server, S3)
        yield server
