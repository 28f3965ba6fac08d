"""The sections of the settings: their names, defaults and limits (docs: Settings)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from feedback.settings.secret_files import KafkaSecrets, SecretFile
from feedback.status import State

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def split(value: object) -> object:
    """Return the parts of a text with commas, anything else as it is."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


# A list in TOML; names with commas between them in the environment.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split)]
# The dead letter strategy: the fate of a request that failed for good.
Strategy = Annotated[str, Field(pattern=r"^(keep|stop|drop|none)$")]


# How a request may end for good; a doubt ends when it is resolved.
OutcomeState = Literal["SUCCEEDED", "FAILED", "EXPIRED", "SKIPPED"]
# A hundred years: no doubt may lose its status before a person has looked at it.
DOUBT_TTL_S = 3_155_760_000.0

# A topic may get more partitions at any time: clients find them after at most this time.
METADATA_MAX_AGE_MS = 30_000


_NOT_OF_CLIENTS = {
    "group",
    "session_timeout_s",
    "max_poll_interval_s",
    "assignor",
    "client",
    "sasl_plain_password_file",
    "sasl_oauth_token_file",
}
_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Section(BaseModel):
    """A section: no unknown names, never changed."""

    # An error about several settings would show all of them, a password too.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class KafkaSection(Section):
    """`[kafka]`: where the brokers are, the group, and security by kafka-python's names."""

    bootstrap_servers: str = "127.0.0.1:9092"
    group: str = Field("onceward", pattern=r"^[a-zA-Z0-9._-]{1,200}$")
    session_timeout_s: Seconds = 6.0
    max_poll_interval_s: Seconds = 300.0
    assignor: str = Field("eager", pattern=r"^(eager|cooperative)$")
    client: str = Field("auto", pattern=r"^(auto|confluent|kafka-python)$")
    client_id: str = "onceward"
    security_protocol: str = Field(
        "PLAINTEXT", pattern=r"^(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)$"
    )
    ssl_check_hostname: bool = True
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: SecretStr | None = None
    ssl_crlfile: str | None = None
    ssl_ciphers: str | None = None
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: SecretStr | None = None
    sasl_plain_password_file: str | None = None
    sasl_oauth_token_file: str | None = None
    sasl_kerberos_name: str | None = None
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: str | None = None

    def connection(self) -> dict[str, Any]:
        """Return the keyword arguments that every kafka-python client takes."""
        given = self.model_dump(exclude=_NOT_OF_CLIENTS, exclude_none=True)
        given["bootstrap_servers"] = [one.strip() for one in self.bootstrap_servers.split(",")]
        for name, value in given.items():
            if isinstance(value, SecretStr):
                given[name] = value.get_secret_value()
        secrets = self.secrets
        if secrets != KafkaSecrets(None, None):
            # `feedback.kafka.kafka_python.logins` finds it there.
            given["sasl_oauth_token_provider"] = secrets
        return {**given, "metadata_max_age_ms": METADATA_MAX_AGE_MS}

    @property
    def secrets(self) -> KafkaSecrets:
        """The files that are read for each login."""
        password, token = (
            None if path is None else SecretFile("kafka", f"[kafka] {name}", path)
            for name, path in (
                ("sasl_plain_password_file", self.sasl_plain_password_file),
                ("sasl_oauth_token_file", self.sasl_oauth_token_file),
            )
        )
        return KafkaSecrets(password, token)

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if not self.security_protocol.startswith("SASL"):
            return self
        if self.sasl_mechanism is None:
            raise ValueError(f"security_protocol = {self.security_protocol} needs sasl_mechanism")
        if self.sasl_mechanism == "OAUTHBEARER" and self.sasl_oauth_token_file is None:
            raise ValueError("sasl_mechanism = OAUTHBEARER needs sasl_oauth_token_file")
        passwords = (self.sasl_plain_password, self.sasl_plain_password_file)
        if self.sasl_mechanism in _BY_PASSWORD and (
            self.sasl_plain_username is None or passwords.count(None) != 1
        ):
            raise ValueError(
                f"sasl_mechanism = {self.sasl_mechanism} needs sasl_plain_username, and one of "
                "sasl_plain_password and sasl_plain_password_file"
            )
        return self

    def reading(self) -> dict[str, Any]:
        """Return the keyword arguments that every consumer takes: it reads committed records."""
        return {**self.connection(), "isolation_level": "read_committed"}


class RedisSection(Section):
    """`[redis]`: the status store."""

    # The URL may hold a password, so `repr` leaves it out.
    url: str = Field("redis://127.0.0.1:6379/0", repr=False)
    status_ttl_s: Seconds = 604_800.0
    outcome_ttl_s: dict[OutcomeState, Seconds] = Field(default_factory=dict)
    heartbeat_ttl_s: Seconds = 5.0
    timeout_s: Seconds = 2.0
    password_file: str | None = None

    def ttl_s(self, state: State) -> float:
        """Return for how long a status in this state is kept."""
        if state is State.IN_DOUBT:
            return DOUBT_TTL_S
        mine = (ttl_s for outcome, ttl_s in self.outcome_ttl_s.items() if outcome == state)
        return next(mine, self.status_ttl_s)

    @property
    def longest_ttl_s(self) -> float:
        """For how long a status is kept at most, but that of an open doubt."""
        return max([self.status_ttl_s, *self.outcome_ttl_s.values()])

    @property
    def shortest_ttl_s(self) -> float:
        """For how long a status is kept at least."""
        return min([self.status_ttl_s, *self.outcome_ttl_s.values()])

    @property
    def secret(self) -> SecretFile | None:
        """The file that is read for each login; None where the URL has the password, or none."""
        if self.password_file is None:
            return None
        return SecretFile("redis", "[redis] password_file", self.password_file)

    @field_validator("url")
    @classmethod
    def _known_scheme(cls, url: str) -> str:
        if not url.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must begin with redis://, rediss:// or unix://")
        try:
            urlsplit(url).port  # noqa: B018
        except ValueError:
            # urlsplit's message would quote the port, which may be a part of a password.
            raise ValueError("has no valid port; a password is percent-encoded") from None
        if "decode_responses" in parse_qs(urlsplit(url).query):
            raise ValueError("leave out decode_responses: payloads are bytes")
        return url


class JournalSection(Section):
    """`[journal]`: the SQL database that makes a resend safe; with an empty url there is none."""

    url: str = Field("sqlite:///onceward.db", repr=False)
    lease_s: Seconds = 5.0
    wait_s: Seconds = 30.0
    timeout_s: Seconds = 10.0

    @field_validator("url")
    @classmethod
    def _known_scheme(cls, url: str) -> str:
        if url and not url.startswith(("sqlite:///", "postgresql+psycopg://")):
            raise ValueError("must begin with sqlite:/// or postgresql+psycopg://")
        return url


class RegistrySection(Section):
    """`[registry]`: the database of unfinished requests, for `onceward-dlq expire`."""

    # Empty: the journal's database. All registries of a group share one.
    url: str = Field("", repr=False)
    lease_s: Seconds = 10.0

    @field_validator("url")
    @classmethod
    def _known_scheme(cls, url: str) -> str:
        return url and JournalSection._known_scheme(url)


class WorkerSection(Section):
    """`[worker]`: the handlers, their processes and their limits."""

    handlers: Names = ()
    processes: int = Field(2, ge=1, le=256)
    slots_per_process: int = Field(1, ge=1, le=1024)
    spare_processes: int = Field(0, ge=0, le=16)
    prefetch: int = Field(0, ge=0, le=1024)
    buffer_limit: int | None = Field(None, ge=1)
    batch_limit: int | None = Field(None, ge=1, le=10_000)
    order_held_limit: int = Field(1000, ge=1)
    order_held_limit_bytes: int = Field(67_108_864, ge=1)
    drain_timeout_s: Seconds = 25.0
    start_timeout_s: Seconds = 30.0
    handover_timeout_s: Seconds = 10.0
    deadline_s: Seconds = 3600.0
    max_result_bytes: int = Field(65_536, ge=0)
    memory_limit_bytes: int = Field(0, ge=0)
    max_requests_per_child: int = Field(0, ge=0)
    create_topics: bool = True
    dead_letters: Strategy = "keep"
    dead_letters_by_topic: dict[str, Strategy] = Field(default_factory=dict)
    dead_letters_excluded: Names = ()
    outage_share: float = Field(0.0, ge=0, lt=1)
    outage_window: int = Field(40, ge=1, le=10_000)
    http_port: int = Field(0, ge=0, le=65_535)
    http_host: str = "127.0.0.1"
    stall_after_s: Seconds = 30.0

    @property
    def slots(self) -> int:
        """The most handlers that run at the same time."""
        return self.processes * self.slots_per_process

    @property
    def buffer_size(self) -> int:
        """The most committed requests that wait for a slot."""
        return self.buffer_limit or 4 * self.slots

    @property
    def batch_size(self) -> int:
        """The most requests with `delivery="batch"` that are read at a time."""
        return self.batch_limit or self.slots

    def dead_letters_of(self, topic: str) -> str:
        """Return the dead letter strategy of a topic; `none` for an excluded topic."""
        if topic in self.dead_letters_excluded:
            return "none"
        return self.dead_letters_by_topic.get(topic, self.dead_letters)


class ClientSection(Section):
    """`[client]`: how requests are sent and waited for."""

    topic: str | None = None
    send_timeout_s: Seconds = 5.0
    resend_after_s: Seconds = 30.0
    deadline_s: Seconds = 3600.0
    poll_interval_s: Seconds = 1.0
    max_request_bytes: int = Field(1_000_000, ge=1)
    # Empty: acks=all, without a check of the topic's replicas.
    durability: str = Field("", pattern=r"^(safe|fast)?$")
    min_insync_replicas: int = Field(2, ge=1)
    # The attribute cannot be called `schema`: pydantic uses that name.
    schema_file: str = Field("", alias="schema")


class OutboxSection(Section):
    """`[outbox]`: requests that wait in a database until the relay has sent them."""

    # Empty: there is none.
    url: str = Field("", repr=False)
    poll_s: Seconds = 1.0
    notify: bool = True
    batch_limit: int = Field(500, ge=1, le=10_000)
    batch_bytes: int = Field(8_000_000, ge=1)
    lease_s: Seconds = 5.0
    keep_s: float = Field(86_400.0, ge=0, allow_inf_nan=False)
    unknown_topic_s: Seconds = 30.0
    send_timeout_s: Seconds = 30.0
    timeout_s: Seconds = 10.0
    http_port: int = Field(0, ge=0, le=65_535)
    http_host: str = "127.0.0.1"

    @field_validator("url")
    @classmethod
    def _known_scheme(cls, url: str) -> str:
        return url and JournalSection._known_scheme(url)


class AuditSection(Section):
    """`[audit]`: the input and output of the daily job."""

    topics: Names = ()
    output: str = "audit/"
    grace_s: Seconds = 600.0
    fail_on: str = "lost>0,ran_twice>0,overdue>0"
    jars: str = ""
    spark_master: str = "local[*]"
    # Passwords of object stores and keystores stand in its values.
    spark_conf: dict[str, str] = Field(default_factory=dict, repr=False)
    statuses: int = Field(1000, ge=0)
    webhook_url: str = Field("", repr=False)


class ConsoleSection(Section):
    """`[console]`: the people who may look and act at `onceward-console`."""

    users_file: str = ""
    dead_letter_topics: Names = ()
    # Passwords and sessions never travel in the clear.
    url: str = Field("", pattern=r"^(https://[^\s/?#@]+/?)?$")
    session_s: Seconds = 43_200.0
    proxy_addresses: Names = ()
    proxy_header: str = "X-Forwarded-User"
    # Tokens never travel in the clear either, but to a provider on this host.
    oidc_issuer: str = Field(
        "", pattern=r"^(https://[^\s?#@]+|http://(127\.0\.0\.1|localhost)(:[0-9]+)?(/[^\s?#@]*)?)?$"
    )
    oidc_client_id: str = ""
    oidc_client_secret_file: str = ""
    oidc_scope: str = "openid email"
    oidc_claim: str = "email"
    oidc_ca_file: str = ""

    @property
    def host(self) -> str:
        """The name and port of `url`, as a browser sends it; empty without one."""
        return self.url.removeprefix("https://").removesuffix("/").lower()


class AlertsSection(Section):
    """`[alerts]`: the webhooks a worker posts failures to; their URLs are secrets."""

    webhook_url: str = Field("", repr=False)
    by_topic: dict[str, str] = Field(default_factory=dict, repr=False)
    rate_per_minute: int = Field(60, ge=0)
    age_s: float = Field(300.0, ge=0, allow_inf_nan=False)
    every_s: Seconds = 300.0

    @field_validator("webhook_url")
    @classmethod
    def _is_web(cls, url: str) -> str:
        if url and not _is_web_address(url):
            # Here and below the message does not quote the URL: it is the secret.
            raise ValueError("must begin with https:// or http:// and name a host")
        return url

    @field_validator("by_topic")
    @classmethod
    def _are_web(cls, urls: dict[str, str]) -> dict[str, str]:
        faulty = sorted(topic for topic, url in urls.items() if url and not _is_web_address(url))
        if faulty:
            of = ", ".join(faulty)
            raise ValueError(f"of {of} must begin with https:// or http:// and name a host")
        return urls

    @property
    def has_webhooks(self) -> bool:
        """Whether any webhook is set."""
        return any([self.webhook_url, *self.by_topic.values()])

    def webhook_of(self, topic: str) -> str:
        """Return the webhook for a topic; empty without one."""
        return self.by_topic.get(topic, self.webhook_url)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
