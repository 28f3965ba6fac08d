"""`onceward-client serve` as it is run: signals, SIGKILL, and a start that is refused."""

from __future__ import annotations

import signal
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from feedback.records.envelope import decode_headers
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.status import State
from producer_client.http.ids import request_id_of
from tests.eventually import eventually
from tests.kit.settings import Sections, write_settings
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.programs import Run
from tests.producer_client.records import records_of
from tests.producer_client.resenders import ClientProgram

LIMIT_S = 30


@pytest.fixture
def serving(environment: dict[str, str], tmp_path: Path) -> Iterator[list[ClientProgram]]:
    """Yield two front doors on ports of their own."""
    offered = environment | {
        "ONCEWARD_HTTP__TOPICS": environment["ONCEWARD_CLIENT__TOPIC"],
        "ONCEWARD_HTTP__PORT": "0",
    }
    doors = [ClientProgram(offered, tmp_path, name, argv=("serve",)) for name in ("a", "b")]
    yield doors
    for one in doors:
        one.kill()


def _port(door: ClientProgram) -> int:
    return int(door.told("http.started")["port"])


def _client(door: ClientProgram) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{_port(door)}", timeout=LIMIT_S)


def _post(http: httpx.Client, topic: str, key: str) -> httpx.Response:
    return http.post(f"/v1/{topic}", json=1, headers={"Idempotency-Key": f'"{key}"'})


def _ids(settings: Settings) -> set[str | None]:
    assert settings.client.topic is not None
    found = records_of(settings.kafka.bootstrap_servers, settings.client.topic)
    return {decode_headers(one).request_id for one in found}


def test_a_stopped_one_takes_no_more_and_answers_what_it_has_begun(
    serving: list[ClientProgram], make_settings: MakeSettings
) -> None:
    door, other = serving
    topic = make_settings().client.topic
    with (
        _client(door) as http,
        ThreadPoolExecutor() as threads,
        socket.create_connection(("127.0.0.1", _port(door)), timeout=LIMIT_S) as half,
    ):
        place = _post(http, topic or "", "order-7").headers["Location"]
        head = f"POST /v1/{topic} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        half.sendall(f'{head}Idempotency-Key: "order-8"\r\nContent-Length: 2\r\n\r\n1'.encode())
        polled = threads.submit(http.get, f"{place}?wait=25")
        with http.stream("GET", f"{place}/events") as stream:
            lines = stream.iter_lines()
            assert any(line.startswith("data: ") for line in lines)
            door.send(signal.SIGTERM)
            # It ends, and says when to come back.
            assert [line for line in lines if line][-1].startswith("retry: ")
        assert polled.result().json()["state"] == "PENDING"
        eventually(lambda: _is_refused(_port(door)), timeout_s=LIMIT_S)
        half.sendall(b"2")
        assert half.recv(100).startswith(b"HTTP/1.1 202 ")
        assert door.wait() == 0
    assert request_id_of("", "order-8") in _ids(make_settings())
    with _client(other) as http:
        assert http.get(place).status_code == 200


def _is_refused(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return False
    return True


def test_all_that_a_killed_one_has_accepted_is_in_kafka_and_the_rest_is_sent_again(
    serving: list[ClientProgram], make_settings: MakeSettings
) -> None:
    door, other = serving
    settings = make_settings()
    topic = settings.client.topic or ""
    keys = [uuid.uuid4().hex for _ in range(400)]
    accepted: list[str] = []
    with _client(door) as http, ThreadPoolExecutor(8) as threads:

        def submit(key: str) -> None:
            with suppress(httpx.TransportError):
                if _post(http, topic, key).status_code == 202:
                    accepted.append(request_id_of("", key))

        sent = [threads.submit(submit, key) for key in keys]
        eventually(lambda: len(accepted) > 50, timeout_s=LIMIT_S)
        door.kill()
        for one in sent:
            one.result()
    assert 50 < len(accepted) < len(keys)
    assert set(accepted) <= _ids(settings)
    with connect(settings.redis) as redis:
        store = StatusStore(redis, settings.kafka.group, settings.redis)
        assert {one.state for one in store.read_many(accepted)} == {State.PENDING}
    with _client(other) as http:
        assert {_post(http, topic, key).status_code for key in keys} == {202}
    # One request for each key, however often it was sent.
    assert _ids(settings) == {request_id_of("", key) for key in keys}


@pytest.mark.parametrize(("drain_s", "signals"), [("1", 1), ("40", 2)])
def test_an_answer_that_is_cut_off_is_the_exit_code_5(
    drain_s: str,
    signals: int,
    environment: dict[str, str],
    tmp_path: Path,
    make_settings: MakeSettings,
) -> None:
    topic = make_settings().client.topic
    short = {"TOPICS": str(topic), "PORT": "0", "DRAIN_TIMEOUT_S": drain_s}
    offered = environment | {f"ONCEWARD_HTTP__{name}": value for name, value in short.items()}
    door = ClientProgram(offered, tmp_path, "door", argv=("serve",))
    try:
        with socket.create_connection(("127.0.0.1", _port(door)), timeout=LIMIT_S) as half:
            head = f"POST /v1/{topic} HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\r\n"
            body = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n1"
            half.sendall(f"{head}{body}".encode())
            with _client(door) as http:
                # One connection after the other: the half body is being read.
                assert http.get("/live").status_code == 200
            for _ in range(signals):
                door.send(signal.SIGTERM)
                eventually(lambda: _is_refused(_port(door)), timeout_s=LIMIT_S)
            assert b"urn:onceward:problem:unknown" in _all_of(half)
            assert door.wait() == 5
    finally:
        door.kill()
    assert door.told("http.stopped")["was_cut"] is True
    assert _ids(make_settings()) == set()


def _all_of(connection: socket.socket) -> bytes:
    return b"".join(iter(partial(connection.recv, 1000), b""))


def test_each_submission_that_is_cut_off_is_unknown_and_leaves_what_that_says(
    environment: dict[str, str],
    tmp_path: Path,
    make_settings: MakeSettings,
    mute: str,
    worker: Worker,
) -> None:
    settings = make_settings()
    topic = settings.client.topic or ""
    short = {"HTTP__TOPICS": topic, "HTTP__PORT": "0", "HTTP__DRAIN_TIMEOUT_S": "1"}
    # Kafka hangs for longer than the drain lasts.
    hung = {"KAFKA__BOOTSTRAP_SERVERS": mute, "CLIENT__SEND_TIMEOUT_S": "8"}
    given = environment | {f"ONCEWARD_{name}": value for name, value in (short | hung).items()}
    keys = [uuid.uuid4().hex for _ in range(30)]
    door = ClientProgram(given, tmp_path, "door", argv=("serve",))
    try:
        with _client(door) as http, ThreadPoolExecutor(len(keys)) as threads:
            sent = [threads.submit(_post, http, topic, key) for key in keys]
            eventually(
                lambda: sum(":request:" in one for one in worker.traces()) >= len(keys),
                timeout_s=LIMIT_S,
            )
            door.send(signal.SIGTERM)
            answers = [one.result() for one in sent]
            assert door.wait() == 5
    finally:
        door.kill()
    for key, answer in zip(keys, answers, strict=True):
        assert answer.headers["Content-Type"] == "application/problem+json"
        said = answer.json()
        assert (answer.status_code, said["type"]) == (503, "urn:onceward:problem:unknown")
        assert said["request_id"] == request_id_of("", key)
    # Each was taken back, but for the one that waited for the topic: a resender sends that.
    ids = [request_id_of("", key) for key in keys]
    left = [one for one in ids if worker.store.read(one).state is not State.UNKNOWN]
    assert len(left) <= 1
    assert all(worker.store.kept_payload(one) and worker.looked_at(one) for one in left)


def test_a_start_that_is_refused_says_why(call: Run) -> None:
    offered = {"ONCEWARD_HTTP__TOPICS": "payments"}
    assert call("serve").code == 2
    open_to_all = call("serve", ONCEWARD_HTTP__HOST="0.0.0.0", **offered)
    assert open_to_all.code == 2
    assert "callers have to be told apart" in open_to_all.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        busy = call("serve", ONCEWARD_HTTP__PORT=port, **offered)
    assert busy.code == 3
    assert f"nobody can listen on 127.0.0.1:{port}" in busy.stderr


def test_a_check_names_each_file_that_cannot_be_used(call: Run, tmp_path: Path) -> None:
    bad, short, schema = (tmp_path / name for name in ("keys.json", "secret", "schema.json"))
    bad.write_text("{")
    short.write_text("x")
    short.chmod(0o600)
    schema.write_text('{"type": "nothing"}')
    section = {
        "keys_file": str(bad),
        "jwks": str(tmp_path / "away.json"),
        "jwt_issuer": "https://issuer",
        "jwt_audience": "shop",
        "token_secret_file": str(short),
        "topics": {"a": {"schema": str(schema)}, "b": {"model": "no_such_module:Payment"}},
    }
    config = write_settings(tmp_path, {"http": section})
    looked = call("serve", "--check", "--config", str(config))
    lines = looked.stdout.splitlines()
    assert (looked.code, [one[:5] for one in lines]) == (3, ["WRONG"] * 5), looked
    assert f"keys_file = {bad}" in lines[0]
    assert "No such file" in lines[1]
    assert "less than 32 characters" in lines[2]
    assert f"topics.a schema = {schema}" in lines[3]
    assert "ModuleNotFoundError" in lines[4]

    wrong: Sections = {
        "http": {"topics": ["a"], "outbox": True, "proxy_addresses": ["nowhere"]},
        "client": {"schema": str(schema)},
    }
    looked = call("serve", "--check", "--config", str(write_settings(tmp_path, wrong)))
    assert looked.code == 2
    assert [one.split(":")[0] for one in looked.stdout.splitlines()] == [
        "WRONG  callers",
        "WRONG  outbox = true",
        f"WRONG  [client] schema = {schema}",
    ]

    fine = call("serve", "--check", ONCEWARD_HTTP__TOPICS="a")
    assert (fine.code, fine.stdout) == (0, "ok     callers\n")
    nobody = call("serve", "--check", ONCEWARD_HTTP__TOPICS="a", ONCEWARD_HTTP__HOST="0.0.0.0")
    assert nobody.code == 2
    assert "callers have to be told apart" in nobody.stdout
