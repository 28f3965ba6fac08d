"""Settings from one TOML file and the environment, checked as a whole (contract, section 12).

The environment wins over the file, the file over the defaults. Every fault is reported at once:
who runs a worker under systemd gets one chance to read the reason.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as UnreadableVariable

from feedback.errors import SettingsError

ENV_PREFIX = "ONCEWARD_"
ENV_DELIMITER = "__"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _split(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


# A list in TOML; names with commas between them in the environment.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSection(_Section):
    """`[kafka]`: where the brokers are, the group, and kafka-python's security settings."""

    bootstrap_servers: str = "127.0.0.1:9092"
    group: str = Field("onceward", pattern=r"^[a-zA-Z0-9._-]{1,200}$")
    session_timeout_s: Seconds = 6.0
    max_poll_interval_s: Seconds = 300.0
    assignor: str = Field("eager", pattern=r"^(eager|cooperative)$")
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
    sasl_kerberos_name: str | None = None
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: str | None = None

    def connection(self) -> dict[str, Any]:
        """Return the keyword arguments that every kafka-python client takes."""
        given = self.model_dump(
            exclude={"group", "session_timeout_s", "max_poll_interval_s", "assignor"},
            exclude_none=True,
        )
        given["bootstrap_servers"] = [one.strip() for one in self.bootstrap_servers.split(",")]
        for name, value in given.items():
            if isinstance(value, SecretStr):
                given[name] = value.get_secret_value()
        return given


class RedisSection(_Section):
    """`[redis]`: the status store."""

    # An url may hold a password, so it is not shown with the rest.
    url: str = Field("redis://127.0.0.1:6379/0", repr=False)
    status_ttl_s: Seconds = 604_800.0
    heartbeat_ttl_s: Seconds = 5.0
    timeout_s: Seconds = 2.0

    @field_validator("url")
    @classmethod
    def _known_scheme(cls, url: str) -> str:
        if not url.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must begin with redis://, rediss:// or unix://")
        try:
            urlsplit(url).port  # noqa: B018
        except ValueError:
            # Its own message would show what stands there, which may be a part of a password.
            raise ValueError("has no valid port; a password is percent-encoded") from None
        return url


class JournalSection(_Section):
    """`[journal]`: the SQL database that makes a resend safe."""

    url: str = Field("sqlite:///onceward.db", repr=False)
    lease_s: Seconds = 5.0
    wait_s: Seconds = 30.0
    timeout_s: Seconds = 10.0

    @field_validator("url")
    @classmethod
    def _known_scheme(cls, url: str) -> str:
        if not url.startswith(("sqlite:///", "postgresql+psycopg://")):
            raise ValueError("must begin with sqlite:/// or postgresql+psycopg://")
        return url


class WorkerSection(_Section):
    """`[worker]`: the handlers and the room they have."""

    handlers: Names = ()
    processes: int = Field(2, ge=1, le=256)
    slots_per_process: int = Field(1, ge=1, le=1024)
    spare_processes: int = Field(0, ge=0, le=16)
    prefetch: int = Field(0, ge=0, le=1024)
    buffer_limit: int | None = Field(None, ge=1)
    drain_timeout_s: Seconds = 25.0
    start_timeout_s: Seconds = 30.0
    deadline_s: Seconds = 3600.0
    max_result_bytes: int = Field(65_536, ge=0)
    memory_limit_bytes: int = Field(0, ge=0)
    max_requests_per_child: int = Field(0, ge=0)
    create_topics: bool = True
    dead_letters: str = Field("keep", pattern=r"^(keep|drop|none)$")
    dead_letters_excluded: Names = ()
    http_port: int = Field(0, ge=0, le=65_535)
    http_host: str = "127.0.0.1"
    stall_after_s: Seconds = 30.0

    @property
    def slots(self) -> int:
        """How many handlers run at the same time at most."""
        return self.processes * self.slots_per_process

    @property
    def buffer_size(self) -> int:
        """How many committed requests wait for a slot at most."""
        return self.buffer_limit or 4 * self.slots

    def dead_letters_of(self, topic: str) -> str:
        """What becomes of requests of this topic that failed for good."""
        return "none" if topic in self.dead_letters_excluded else self.dead_letters


class ClientSection(_Section):
    """`[client]`: how requests are sent and waited for."""

    topic: str | None = None
    send_timeout_s: Seconds = 5.0
    resend_after_s: Seconds = 30.0
    deadline_s: Seconds = 3600.0
    poll_interval_s: Seconds = 1.0
    max_request_bytes: int = Field(1_000_000, ge=1)


class AuditSection(_Section):
    """`[audit]`: what the daily job reads and where it writes."""

    topics: Names = ()
    output: str = "audit/"
    grace_s: Seconds = 600.0
    fail_on: str = "lost>0,ran_twice>0"
    jars: str = ""
    spark_master: str = "local[*]"
    spark_conf: dict[str, str] = Field(default_factory=dict)
    statuses: int = Field(1000, ge=0)
    webhook_url: str = Field("", repr=False)


class Settings(BaseSettings):
    """All sections; every one has working defaults for one host."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    kafka: KafkaSection = KafkaSection()
    redis: RedisSection = RedisSection()
    journal: JournalSection = JournalSection()
    worker: WorkerSection = WorkerSection()
    client: ClientSection = ClientSection()
    audit: AuditSection = AuditSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over what was read from the file (passed as init arguments)."""
        assert isinstance(env_settings, EnvSettingsSource)
        return env_settings, init_settings


def load(config: Path | str | None = None, **overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of a file, the environment and the defaults.

    Args:
        config: a TOML file; None for the environment and the defaults alone.
        overrides: sections given in code; they stand in for the file's of the same name.

    Raises:
        SettingsError: the file cannot be read, or any names or values are wrong; all are named.
    """
    sections = {**_from_file(config), **overrides}
    faults = _unknown_environment()
    try:
        settings = Settings(**sections)
    except ValidationError as error:
        faults += [_fault(one) for one in error.errors()]
    except UnreadableVariable as error:
        # A whole section in one variable, which must then be JSON.
        faults.append(f"environment: {error}")
    if faults:
        where = f" (file {config} and the environment)" if config else ""
        raise SettingsError(f"settings are wrong{where}:\n  " + "\n  ".join(sorted(faults)))
    return settings


def _from_file(config: Path | str | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        return tomllib.loads(Path(config).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {config}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {config} is not TOML: {error}") from error


def _unknown_environment() -> list[str]:
    # pydantic looks only for names it knows: a misspelt section would be passed over in silence
    faults = []
    for name in os.environ:
        if not name.startswith(ENV_PREFIX):
            continue
        section, delimiter, _ = name.removeprefix(ENV_PREFIX).lower().partition(ENV_DELIMITER)
        if delimiter and section not in Settings.model_fields:
            faults.append(f"{name}: there is no section [{section}]")
        head, underscore, _ = section.partition("_")
        if not delimiter and underscore and head in Settings.model_fields:
            faults.append(f"{name}: two underscores divide the section from the name")
    return faults


def _fault(error: Any) -> str:
    place = error["loc"]
    if error["type"] == "extra_forbidden":
        return f"{_name(place)}: there is no such setting"
    message = error["msg"].removeprefix("Value error, ")
    return f"{_name(place)}: {message}"


def _name(place: tuple[int | str, ...]) -> str:
    head, *rest = [str(part) for part in place]
    return f"[{head}] {'.'.join(rest)}" if rest else f"[{head}]"
