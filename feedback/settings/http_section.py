"""The section `[http]`: the front door (docs: Settings, A front door)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from feedback.settings.sections import Names, Seconds, Section, split

# None of the patterns below has `\d` or `\w`, which are the digits and letters of all Unicode: with
# the two pydantic's engine took a megabyte more in each process.

# As Kafka takes them.
TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
Rate = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}/(second|minute|hour)$")]


class HttpTopic(Section):
    """An offered topic: its keys, its values and its content types."""

    key: Literal["required", "optional"] = "required"
    schema_file: str = Field("", alias="schema")
    model: str = Field("", pattern=r"^([^\s:]+:[^\s:]+)?$")
    content_types: Names = ("application/json",)


def _offered(value: object) -> object:
    """Return topics by their names; those of a list have the defaults."""
    value = split(value)
    return {str(name): {} for name in value} if isinstance(value, list | tuple) else value


class HttpSection(Section):
    """`[http]`: the front door, `onceward-client serve`."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65_535)
    topics: Annotated[dict[TopicName, HttpTopic], NoDecode, BeforeValidator(_offered)] = Field(
        default_factory=dict
    )
    outbox: bool = False
    max_body_bytes: int = Field(1_048_576, ge=1)
    body_timeout_s: Seconds = 10.0
    max_wait_s: Seconds = 30.0
    heartbeat_s: Seconds = 15.0
    drain_timeout_s: Seconds = 25.0
    submit_rate: Rate = "1000/second"
    status_rate: Rate = "5000/second"
    cors_origins: Names = ()
    keys_file: str = ""
    jwks: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_algorithms: Names = ("RS256", "ES256")
    proxy_addresses: Names = ()
    proxy_header: str = "X-Forwarded-User"
    token_secret_file: str = ""
