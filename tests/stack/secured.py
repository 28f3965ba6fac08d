"""A broker that asks who one is: TLS, users with passwords, and rights that are given one by one.

Beside its secured listener it has a plain one on loopback, whose users may do everything: it is how
the broker talks to itself, and how a test makes topics and gives rights.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)

from onceward.servers.errors import StackError
from onceward.servers.kafka import Broker
from onceward.servers.ports import HOST, free_port
from tests.eventually import eventually
from tests.stack.authority import Authority, Certificate
from tests.stack.restartable import Restartable, restartable

_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LISTENER = "listener.name.secured"
_PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MUTUAL = "listener.name.mutual"
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """A broker and how it is reached.

    Attributes:
        address: of the secured listener.
        plain: of the listener that asks nothing.
        mutual: of the listener that knows its users by their certificates, as `CN=name`.
        cafile: its users trust the broker's certificate by it.
        server: the broker itself.
    """

    address: str
    plain: str
    mutual: str
    cafile: Path
    server: Restartable

    def allow(
        self,
        user: str,
        kind: ResourceType,
        name: str,
        *operations: ACLOperation,
        prefixed: bool = False,
    ) -> None:
        """Give a user rights to one topic, group, or other resource.

        Args:
            prefixed: to all whose names begin so.

        Raises:
            StackError: the broker refuses.
        """
        how = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
        pattern = ResourcePattern(kind, name, how)
        rights = [
            ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)
            for operation in operations
        ]
        with KafkaAdminClient(bootstrap_servers=self.plain) as admin:
            if failed := admin.create_acls(rights)["failed"]:
                raise StackError(f"{user} gets no rights to {name}: {failed}")
            # A broker has it a moment after it took the command.
            given = _filter(user, ResourcePatternFilter(kind, name, how))
            eventually(lambda: {*operations} <= _known(admin, given), what=f"rights to {name}")

    def take_away(
        self,
        user: str,
        kind: ResourceType = ResourceType.ANY,
        name: str | None = None,
        operation: ACLOperation = ACLOperation.ANY,
    ) -> None:
        """Take rights from a user: all of them, or those to a kind, to a name, to one operation.

        Raises:
            StackError: the user had no such right.
        """
        pattern = ResourcePatternFilter(kind, name, ACLResourcePatternType.ANY)
        wanted = _filter(user, pattern, operation)
        with KafkaAdminClient(bootstrap_servers=self.plain) as admin:
            ((_, deleted, error),) = admin.delete_acls([wanted])
            if not deleted:
                raise StackError(f"{user} has no such right to {name}: {error}")
            eventually(lambda: not _known(admin, wanted), what=f"no right to {name}")

    def set_password(self, user: str, password: str) -> None:
        """Give a user of SCRAM another password; connections that are open stay open."""
        _add_users(self.plain, {user: password})


def _filter(
    user: str, pattern: ResourcePatternFilter, operation: ACLOperation = ACLOperation.ANY
) -> ACLFilter:
    return ACLFilter(f"User:{user}", None, operation, ACLPermissionType.ANY, pattern)


def _known(admin: KafkaAdminClient, wanted: ACLFilter) -> set[ACLOperation]:
    """Return the operations of these rights that the broker itself knows by now."""
    found, _ = admin.describe_acls(wanted)
    return {one.operation for one in found}


@contextmanager
def secured_kafka(
    folder: Path,
    *,
    plain: Mapping[str, str],
    scram: Mapping[str, str],
    authority: Authority | None = None,
) -> Iterator[SecuredKafka]:
    """Yield a broker of one's own, gone after the block.

    Args:
        folder: for its certificate.
        plain: passwords by user, for SASL's PLAIN.
        scram: likewise, for SCRAM-SHA-256 and SCRAM-SHA-512.
        authority: signs its certificate; without one, one of its own.

    Raises:
        StackError: it is not installed or did not start.
    """
    authority = authority or Authority(folder)
    certificate = authority.issue("broker")
    listeners: dict[str, int] = {}

    def choose() -> Broker:
        for name in ("PLAINTEXT", "SECURED", "MUTUAL", "CONTROLLER"):
            listeners[name] = free_port()
        return Broker(
            port=listeners["PLAINTEXT"],
            controller_port=listeners["CONTROLLER"],
            settings=_settings(listeners, certificate, plain) | _trust(certificate, authority),
        )

    with restartable(choose) as server:
        secured, mutual = (f"{HOST}:{listeners[name]}" for name in ("SECURED", "MUTUAL"))
        made = SecuredKafka(secured, server.address, mutual, authority.cafile, server)
        _add_users(made.plain, scram)
        yield made


def _trust(certificate: Certificate, authority: Authority) -> dict[str, str]:
    """Return the settings of the listener that wants a certificate of each client."""
    return {
        f"{_MUTUAL}.ssl.client.auth": "required",
        f"{_MUTUAL}.ssl.keystore.location": str(certificate.both),
        f"{_MUTUAL}.ssl.keystore.type": "PEM",
        f"{_MUTUAL}.ssl.truststore.location": str(authority.cafile),
        f"{_MUTUAL}.ssl.truststore.type": "PEM",
    }


def _settings(
    ports: Mapping[str, int], certificate: Certificate, plain: Mapping[str, str]
) -> dict[str, str]:
    own = {name: number for name, number in ports.items() if name != "CONTROLLER"}
    listeners = [f"{name}://{HOST}:{number}" for name, number in own.items()]
    users = " ".join(f'user_{user}="{password}"' for user, password in plain.items())
    scram = {
        f"{_LISTENER}.{name}.sasl.jaas.config": f"{_SCRAM_LOGIN} required;"
        for name in map(str.lower, _SCRAM)
    }
    return {
        "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{ports['CONTROLLER']}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL,MUTUAL:SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        f"{_LISTENER}.ssl.keystore.location": str(certificate.both),
        f"{_LISTENER}.ssl.keystore.type": "PEM",
        f"{_LISTENER}.sasl.enabled.mechanisms": ",".join(("PLAIN", "OAUTHBEARER", *_SCRAM)),
        # Without an address of keys it takes tokens that nobody has signed.
        f"{_LISTENER}.oauthbearer.sasl.jaas.config": f"{_OAUTH_LOGIN} required;",
        f"{_LISTENER}.plain.sasl.jaas.config": f"{_PLAIN_LOGIN} required {users};",
        **scram,
    }


def _add_users(address: str, scram: Mapping[str, str]) -> None:
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        # One request each: a broker takes no user twice in one.
        for mechanism in _SCRAM:
            wanted = [
                UserScramCredentialUpsertion(user, mechanism, password)
                for user, password in scram.items()
            ]
            answers = admin.alter_user_scram_credentials(wanted)
            if refused := {user: why for user, why in answers.items() if why}:
                raise StackError(f"users were refused: {refused}")
