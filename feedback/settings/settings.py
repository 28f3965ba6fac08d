"""Settings from one TOML file and the environment, checked as a whole (docs: Settings).

The environment wins over the file, the file over the defaults. Every fault is reported at once:
the operator of a systemd unit should not start it ten times for ten faults.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as UnreadableVariable

from feedback.errors import SettingsError
from feedback.settings.http_section import HttpSection
from feedback.settings.sections import (
    AlertsSection,
    AuditSection,
    ClientSection,
    ConsoleSection,
    JournalSection,
    KafkaSection,
    OutboxSection,
    RedisSection,
    RegistrySection,
    WorkerSection,
)
from feedback.settings.toml_file import sections_of

__all__ = [
    "AlertsSection",
    "AuditSection",
    "ClientSection",
    "ConsoleSection",
    "HttpSection",
    "JournalSection",
    "KafkaSection",
    "OutboxSection",
    "RedisSection",
    "RegistrySection",
    "Settings",
    "WorkerSection",
    "load",
]

ENV_PREFIX = "ONCEWARD_"
ENV_DELIMITER = "__"


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
    registry: RegistrySection = RegistrySection()
    worker: WorkerSection = WorkerSection()
    client: ClientSection = ClientSection()
    http: HttpSection = HttpSection()
    console: ConsoleSection = ConsoleSection()
    outbox: OutboxSection = OutboxSection()
    audit: AuditSection = AuditSection()
    alerts: AlertsSection = AlertsSection()
    _file: str | None = PrivateAttr(None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file, whose values are passed as init arguments."""
        assert isinstance(env_settings, EnvSettingsSource)
        return env_settings, init_settings

    @classmethod
    def load(cls, config: Path | str | None = None, **overrides: Mapping[str, Any]) -> Settings:
        """Return the settings of a file, the environment and the defaults.

        Args:
            config: a TOML file; None for the environment and the defaults alone.
            overrides: sections given in code; each replaces the file's section of the same name.

        Raises:
            SettingsError: the file cannot be read, or names or values are wrong; it names each.
        """
        return load(config, **overrides)

    @property
    def file(self) -> str | None:
        """The file that the settings came from, for commands shown to a person."""
        return self._file


def load(config: Path | str | None = None, **overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of a file, the environment and the defaults; see `Settings.load`."""
    sections = {**({} if config is None else sections_of(config)), **overrides}
    faults = _unknown_environment()
    try:
        settings = Settings(**sections)
        settings._file = None if config is None else str(config)
    except ValidationError as error:
        faults += [_fault(one) for one in error.errors()]
    except UnreadableVariable as error:
        # One variable may hold a whole section, as JSON.
        faults.append(f"environment: {error}")
    if faults:
        where = f" (file {config} and the environment)" if config else ""
        raise SettingsError(f"settings are wrong{where}:\n  " + "\n  ".join(sorted(faults)))
    return settings


def _unknown_environment() -> list[str]:
    # pydantic looks only for the names it knows: it would ignore a misspelt section in silence.
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
