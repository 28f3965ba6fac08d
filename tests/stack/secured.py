"""A broker that asks who one is: TLS, users with passwords, and rights that are given one by one.

Beside its secured listener it has a plain one on loopback, whose users may do everything: it is how
the broker talks to itself, and how a test makes topics and gives rights.
"""

import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    UserScramCredentialUpsertion,
)

from onceward.servers.errors import StackError
from onceward.servers.kafka import Broker
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port
from tests.stack.restartable import restartable

KEYTOOL_LIMIT_S = 60.0
_STORE_PASSWORD = "changeit"  # of a key that lives as long as its test
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LISTENER = "listener.name.secured"
_PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """A broker and how it is reached.

    Args:
        address: of the secured listener.
        plain: of the listener that asks nothing.
        cafile: what the broker's certificate is trusted by.
    """

    address: str
    plain: str
    cafile: Path

    def allow(self, user: str, kind: ResourceType, name: str, *operations: ACLOperation) -> None:
        """Give a user rights to one topic or group.

        Raises:
            StackError: the broker refuses.
        """
        pattern = ResourcePattern(kind, name)
        rights = [
            ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)
            for operation in operations
        ]
        with KafkaAdminClient(bootstrap_servers=self.plain) as admin:
            if failed := admin.create_acls(rights)["failed"]:
                raise StackError(f"{user} gets no rights to {name}: {failed}")


@contextmanager
def secured_kafka(
    folder: Path, *, plain: Mapping[str, str], scram: Mapping[str, str]
) -> Iterator[SecuredKafka]:
    """Yield a broker of one's own, gone after the block.

    Args:
        folder: for its certificate.
        plain: passwords by user, for SASL's PLAIN.
        scram: likewise, for SCRAM-SHA-256 and SCRAM-SHA-512.

    Raises:
        StackError: it is not installed or did not start.
    """
    store, cafile = folder / "broker.p12", folder / "broker.pem"
    ports: list[int] = []

    def choose() -> Broker:
        port, controller_port = free_port(), free_port()
        ports.append(free_port())
        return Broker(
            port=port,
            controller_port=controller_port,
            settings=_settings(port, controller_port, ports[-1], store, plain),
        )

    _certify(store, cafile)
    with restartable(choose) as server:
        made = SecuredKafka(f"{HOST}:{ports[-1]}", server.address, cafile)
        _add_users(made.plain, scram)
        yield made


def _settings(
    port: int, controller_port: int, secured_port: int, store: Path, plain: Mapping[str, str]
) -> dict[str, str]:
    own = {"PLAINTEXT": port, "SECURED": secured_port}
    listeners = [f"{name}://{HOST}:{number}" for name, number in own.items()]
    users = " ".join(f'user_{user}="{password}"' for user, password in plain.items())
    scram = {
        f"{_LISTENER}.{name}.sasl.jaas.config": f"{_SCRAM_LOGIN} required;"
        for name in map(str.lower, _SCRAM)
    }
    return {
        "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{controller_port}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        f"{_LISTENER}.ssl.keystore.location": str(store),
        f"{_LISTENER}.ssl.keystore.password": _STORE_PASSWORD,
        f"{_LISTENER}.ssl.keystore.type": "PKCS12",
        f"{_LISTENER}.sasl.enabled.mechanisms": ",".join(("PLAIN", *_SCRAM)),
        f"{_LISTENER}.plain.sasl.jaas.config": f"{_PLAIN_LOGIN} required {users};",
        **scram,
    }


def _certify(store: Path, cafile: Path) -> None:
    """Make a key and the certificate that it signs for itself."""
    given = ("-alias", "broker", "-storepass", _STORE_PASSWORD, "-keystore", str(store))
    names = ("-dname", f"CN={HOST}", "-ext", f"san=ip:{HOST}", "-ext", "bc=ca:true")
    key = ("-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", "-validity", "2")
    _keytool((*key, *given, *names))
    _keytool(("-exportcert", "-rfc", *given, "-file", str(cafile)))


def _keytool(words: Collection[str]) -> None:
    # It comes with Java, which the broker needs.
    tool = Path(program("java")).resolve().with_name("keytool")
    done = subprocess.run(
        (str(tool), *words), capture_output=True, text=True, timeout=KEYTOOL_LIMIT_S
    )
    if done.returncode:
        raise StackError("keytool made no certificate", done.stdout + done.stderr)


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
