"""The authority behind all servers is replaced while a worker and clients run: none starts anew."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feedback.errors import NotAvailable, SecurityKind
from feedback.rights.needed import Role
from feedback.settings.settings import Settings
from feedback.status import State
from producer_client import AsyncClient, Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.eventually import eventually
from tests.feedback.kafka.engines.members import ENGINES
from tests.stack.authority import Authority, Certificate
from tests.stack.postgres import server_user
from tests.stack.secured_stack import Secured, secured_stack

pytestmark = [pytest.mark.usefixtures("no_given_servers"), pytest.mark.long]

ENDS_WITHIN_S = 60.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage on servers of its own, with tables and the rights of worker and client."""
    folder = tmp_path / "servers"
    folder.mkdir()
    with secured_stack(folder) as secured, rights_stage(secured, tmp_path) as made:
        made.migrate()
        for role in (Role.WORKER, Role.CLIENT):
            made.grant(role)
        yield made


@pytest.mark.timeout(600)
@pytest.mark.parametrize("library", ENGINES)
def test_a_renewed_authority_ends_nobody(stage: RightsStage, library: str, tmp_path: Path) -> None:
    """librdkafka reads its files once: such a worker names the fault, and is started anew."""
    worker = stage.worker(kafka={"client": library})
    worker.told("worker.started")
    renewed = tmp_path / "renewed"
    renewed.mkdir()
    new = Authority(renewed, name="a new authority")
    both = stage.secured.authority.cafile.read_text() + new.cafile.read_text()
    with asyncio.Runner() as runner, Client(stage.settings(Role.CLIENT)) as client:
        slow = runner.run(opened(stage.settings(Role.CLIENT)))
        require_runs(client, slow, runner)
        for trusted in (both, new.cafile.read_text()):  # the old one is trusted no more
            trust(stage.secured, trusted)
            present(stage.secured, new)
            if library == "confluent" and trusted == both:
                worker.told("access.refused")
                assert worker.events("access.refused")[0]["fault"] == SecurityKind.UNTRUSTED
                worker.kill()
                worker = stage.worker(kafka={"client": library})
            require_runs(client, slow, runner)
        runner.run(slow.aclose())
    assert worker.is_alive
    assert not worker.events("access.refused"), worker.tail


async def opened(settings: Settings) -> AsyncClient:
    return await AsyncClient(settings).__aenter__()


def require_runs(client: Client, slow: AsyncClient, runner: asyncio.Runner) -> None:
    """Return when a request of each client has succeeded, however long its first tries fail."""

    def ends(value: bytes) -> bool:
        try:
            name = client.send(value).request_id
            other = runner.run(slow.send(value)).request_id
            last = client.wait(name, timeout_s=ENDS_WITHIN_S).state
            of_other = runner.run(slow.wait(other, timeout_s=ENDS_WITHIN_S)).state
        except NotAvailable:
            return False
        return last is of_other is State.SUCCEEDED

    eventually(lambda: ends(b"paid"), timeout_s=ENDS_WITHIN_S, interval_s=1.0, what="a run")


def trust(secured: Secured, authorities: str) -> None:
    """Rename a new file of authorities into the place of the one that all settings name."""
    cafile = secured.authority.cafile
    beside = cafile.with_suffix(".new")
    beside.write_text(authorities)
    beside.rename(cafile)


def present(secured: Secured, new: Authority) -> None:
    """Let each server present a certificate of a new authority, and end all connections."""
    folder = secured.authority.cafile.parent
    redis, postgres = new.issue("redis"), new.issue("postgres")
    for name in ("broker.pem", "redis.pem"):
        shutil.copyfile(new.issue(name.removesuffix(".pem")).both, folder / name)
    redis_at: Any = secured.redis.admin
    files = ("tls-cert-file", str(redis.both), "tls-key-file", str(redis.both))
    redis_at.execute_command("CONFIG", "SET", *files)
    redis_at.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    redis_at.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    renew_postgres(secured, postgres)
    secured.kafka.server.stop()
    secured.kafka.server.start()


def renew_postgres(secured: Secured, certificate: Certificate) -> None:
    (found,) = secured.postgres.run("SHOW ssl_cert_file")
    (key,) = secured.postgres.run("SHOW ssl_key_file")
    for source, target in ((certificate.cert, found[0]), (certificate.key, key[0])):
        shutil.copyfile(source, target)
        Path(target).chmod(0o600)
        if (user := server_user()) is not None:
            shutil.chown(target, user)
    secured.postgres.run("SELECT pg_reload_conf()")
    secured.postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
    )
