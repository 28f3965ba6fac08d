"""Settings: the environment over the file over the defaults, and every fault at once."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from feedback.errors import ExitCode, NotAvailable, SettingsError
from feedback.redis.server import RedisSettings, connect
from feedback.settings.settings import KafkaSection, RedisSection, Settings, load
from feedback.status import State

CONTRACT = """
[kafka]
bootstrap_servers = "127.0.0.1:9092"
group = "payments"
[redis]
url = "redis://127.0.0.1:6379/0"
status_ttl_s = 604800
heartbeat_ttl_s = 5
[journal]
url = "sqlite:///onceward.db"
lease_s = 5
wait_s = 30
[worker]
handlers = ["payments.handlers"]
processes = 2
slots_per_process = 1
prefetch = 0
buffer_limit = 8
drain_timeout_s = 25
max_result_bytes = 65536
http_port = 0
[client]
topic = "payments"
send_timeout_s = 5
resend_after_s = 30
deadline_s = 3600
[audit]
topics = ["payments"]
output = "audit/"
grace_s = 600
"""


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.upper().startswith("ONCEWARD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "onceward.toml"


def faults_of(config: Path | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(config)
    assert caught.value.exit_code is ExitCode.USAGE
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_the_settings_of_the_contract_are_taken(config: Path) -> None:
    config.write_text(CONTRACT)
    settings = load(config)
    assert settings.kafka.group == "payments"
    assert settings.worker.handlers == ("payments.handlers",)
    assert settings.audit.topics == ("payments",)


def test_the_defaults_are_those_of_the_contract(config: Path) -> None:
    config.write_text(CONTRACT)
    written, default = load(config).model_dump(), load().model_dump()
    own = {"kafka": "group", "worker": "handlers", "client": "topic", "audit": "topics"}
    for section, name in own.items():
        del written[section][name], default[section][name]
    # Its default follows the slots, and is the 8 of the contract for 2 of them.
    assert written["worker"].pop("buffer_limit") == load().worker.buffer_size
    del default["worker"]["buffer_limit"]
    assert written == default


def test_the_environment_wins_over_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('[kafka]\ngroup = "file"\nclient_id = "file"\n')
    monkeypatch.setenv("ONCEWARD_KAFKA__GROUP", "environment")
    settings = load(config)
    assert (settings.kafka.group, settings.kafka.client_id) == ("environment", "file")


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_KAFKA__GROUP", "")
    assert load().kafka.group == "onceward"


def test_lists_have_commas_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_WORKER__HANDLERS", "shop.handlers, bank.handlers,")
    monkeypatch.setenv("ONCEWARD_AUDIT__TOPICS", "payments")
    settings = load()
    assert settings.worker.handlers == ("shop.handlers", "bank.handlers")
    assert settings.audit.topics == ("payments",)


def test_sections_given_in_code_stand_in_for_those_of_the_file(config: Path) -> None:
    config.write_text('[kafka]\ngroup = "file"\n[client]\ntopic = "file"\n')
    settings = load(config, kafka={"client_id": "code"})
    assert (settings.kafka.group, settings.kafka.client_id) == ("onceward", "code")
    assert settings.client.topic == "file"


def test_every_fault_is_reported_at_once(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(
        "[kafka]\ngroup = 'a b'\nbootstrap = 'x'\n[worker]\nprocesses = 0\n[paymnets]\nx = 1\n"
        "[redis]\nurl = 'http://x'\ntimeout_s = inf\n"
    )
    monkeypatch.setenv("ONCEWARD_WORKER__HTTP_PORT", "http")
    monkeypatch.setenv("ONCEWARD_WORKER__PROCESES", "2")
    monkeypatch.setenv("ONCEWARD_WROKER__PROCESSES", "2")
    monkeypatch.setenv("ONCEWARD_CLIENT_TOPIC", "payments")
    monkeypatch.setenv("ONCEWARD_AUDIT", "not json")
    faults = faults_of(config)
    for part in (
        "ONCEWARD_CLIENT_TOPIC: two underscores",
        "ONCEWARD_WROKER__PROCESSES: there is no section [wroker]",
        'error parsing value for field "audit"',
    ):
        assert any(part in fault for fault in faults)
    monkeypatch.delenv("ONCEWARD_AUDIT")
    faults = faults_of(config)
    for part in (
        "ONCEWARD_CLIENT_TOPIC: two underscores",
        "ONCEWARD_WROKER__PROCESSES: there is no section [wroker]",
        "[kafka] bootstrap: there is no such setting",
        "[kafka] group: String should match",
        "[paymnets]: there is no such setting",
        "[redis] timeout_s: Input should be a finite number",
        "[redis] url: must begin with redis://",
        "[worker] http_port: Input should be a valid integer",
        "[worker] proceses: there is no such setting",
        "[worker] processes: Input should be greater",
    ):
        assert [fault for fault in faults if fault.startswith(part)], part
    assert len(faults) == 10


def test_the_message_names_the_file(config: Path) -> None:
    config.write_text("[kafka]\ngroup = 7\n")
    with pytest.raises(SettingsError, match=r"onceward\.toml"):
        load(config)


def test_other_variables_of_ours_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_HOME", "/x")
    monkeypatch.setenv("ONCEWARD_BENCH_ROUNDS", "3")
    assert load().kafka.group == "onceward"


@pytest.mark.parametrize("text", ["[kafka", "kafka: group", "a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_one_sentence(config: Path, text: str) -> None:
    config.write_text(text)
    with pytest.raises(SettingsError, match="is not TOML"):
        load(config)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a." * 100_000 + "a = 1", "names with dots"),
        ("[kafka]\nb = {" + '"a" . ' * 100_000 + "a = 1}", "names with dots"),
        ("[" + "'a'." * 100_000 + "a]", "names with dots"),
        ("#" * (2**20 + 1), "larger than 1 MiB"),
    ],
    ids=["key", "inline", "header", "size"],
)
@pytest.mark.timeout(20)
def test_a_file_that_no_person_writes_is_one_sentence_at_once(
    config: Path, text: str, said: str
) -> None:
    config.write_text(text)
    with pytest.raises(SettingsError, match=said):
        load(config)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["a", "'", '"', '\\"', "a.", '"a', "a "])
def test_the_look_for_such_names_takes_no_longer_than_reading(config: Path, part: str) -> None:
    config.write_text("# " + part * (1_000_000 // len(part)) + "\n[kafka]\ngroup = 'g'\n")
    with suppress(SettingsError):
        assert load(config).kafka.group == "g"


def test_a_file_that_is_not_text_is_one_sentence(config: Path) -> None:
    config.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="is not TOML"):
        load(config)


def test_a_missing_file_and_a_folder_are_named(config: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"onceward\.toml: No such file"):
        load(config)
    with pytest.raises(SettingsError, match="directory"):
        load(tmp_path)


def test_a_section_that_is_no_table_is_named(config: Path) -> None:
    config.write_text("kafka = 5\n")
    assert faults_of(config)[0].startswith("[kafka]: ")


SECRET = "hunter2-secret"


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_KAFKA__SSL_PASSWORD", SECRET)
    monkeypatch.setenv("ONCEWARD_KAFKA__SASL_PLAIN_PASSWORD", SECRET)
    monkeypatch.setenv("ONCEWARD_REDIS__URL", f"redis://u:{SECRET}@host:1/0")
    monkeypatch.setenv("ONCEWARD_JOURNAL__URL", f"postgresql+psycopg://u:{SECRET}@host/db")
    monkeypatch.setenv("ONCEWARD_ALERTS__WEBHOOK_URL", f"https://host/{SECRET}")
    monkeypatch.setenv("ONCEWARD_ALERTS__BY_TOPIC", json.dumps({"a": f"https://host/{SECRET}"}))
    monkeypatch.setenv("ONCEWARD_AUDIT__SPARK_CONF", json.dumps({"spark.hadoop.key": SECRET}))
    settings = load()
    assert SECRET not in f"{settings!r} {settings} {settings.redis!r} {settings.journal!r}"
    assert SECRET not in f"{settings.audit!r} {settings.audit}"
    assert SECRET not in f"{settings.alerts!r} {settings.alerts}"
    assert settings.alerts.webhook_of("a") == settings.alerts.webhook_of("b")
    assert settings.kafka.connection()["ssl_password"] == SECRET
    assert SECRET in settings.redis.url


def test_secrets_are_not_shown_in_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (f"http://u:{SECRET}@h", f"redis://u:a/{SECRET}@h", f"redis://h:{SECRET}"):
        monkeypatch.setenv("ONCEWARD_REDIS__URL", url)
        monkeypatch.setenv("ONCEWARD_JOURNAL__URL", f"mysql://u:{SECRET}@h/db")
        assert SECRET not in "".join(faults_of())


@pytest.mark.parametrize(
    "url", [f"hooks/{SECRET}", f"ftp://h/{SECRET}", f"https:///{SECRET}", f"https://h:{SECRET}/"]
)
def test_a_webhook_that_is_no_address_is_a_fault_that_does_not_show_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEWARD_ALERTS__WEBHOOK_URL", url)
    monkeypatch.setenv("ONCEWARD_ALERTS__BY_TOPIC", json.dumps({"a": url, "b": ""}))
    by_topic, webhook = sorted(faults_of())
    assert by_topic.startswith("[alerts] by_topic: of a must begin with https://")
    assert webhook.startswith("[alerts] webhook_url: must begin with https://")
    assert SECRET not in by_topic + webhook


def test_topics_have_their_webhooks_and_an_empty_one_is_nobody(config: Path) -> None:
    config.write_text(
        '[alerts]\nwebhook_url = "https://h/all"\n'
        '[alerts.by_topic]\n"pay.ments" = "https://h/pay"\nquiet = ""\n'
    )
    settings = load(config)
    found = [settings.alerts.webhook_of(topic) for topic in ("pay.ments", "quiet", "other")]
    assert found == ["https://h/pay", "", "https://h/all"]
    assert (settings.alerts.has_webhooks, load().alerts.has_webhooks) == (True, False)
    assert (settings.file, load().file) == (str(config), None)


@pytest.mark.parametrize("url", ["redis://h:port/0", "redis://h:99999/0", "redis://u:p/w@h:6379/0"])
def test_a_redis_url_without_a_valid_port_is_a_fault(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEWARD_REDIS__URL", url)
    assert faults_of()[0].startswith("[redis] url: has no valid port")


def test_how_long_a_status_is_kept_may_be_set_by_outcome(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(CONTRACT + "[redis.outcome_ttl_s]\nSUCCEEDED = 86400\n")
    section = load(config).redis
    assert [section.ttl_s(one) for one in (State.SUCCEEDED, State.FAILED)] == [86400, 604800]
    assert section.ttl_s(State.PENDING) == 604800
    assert section.shortest_ttl_s == 86400
    monkeypatch.setenv("ONCEWARD_REDIS__OUTCOME_TTL_S", '{"EXPIRED": 700000}')
    section = load().redis
    assert (section.ttl_s(State.EXPIRED), section.shortest_ttl_s) == (700000, 604800)


@pytest.mark.parametrize("outcome", ["IN_DOUBT", "PENDING", "succeeded", "DONE"])
def test_only_what_has_ended_for_good_has_a_time_of_its_own(
    outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEWARD_REDIS__OUTCOME_TTL_S", json.dumps({outcome: 86400}))
    (fault,) = faults_of()
    assert fault.startswith(f"[redis] outcome_ttl_s.{outcome}"), fault
    assert "'SUCCEEDED', 'FAILED', 'EXPIRED' or 'SKIPPED'" in fault


@pytest.mark.parametrize(
    "url",
    ["redis://h", "rediss://u:p@h:6380/1", "unix:///run/redis.sock", "redis://[::1]:6379/0"],
)
def test_every_usual_redis_url_makes_a_client(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_REDIS__URL", url)
    section: RedisSettings = load().redis
    client = connect(section)
    # What a connection is made of is looked at when it is made, not before.
    assert client.connection_pool.make_connection() is not None


def test_the_security_settings_of_kafka_go_through_by_their_own_names(config: Path) -> None:
    names = {one for one in KafkaSection.model_fields if one.startswith(("ssl_", "sasl_"))}
    # Those that we read ourselves.
    names -= {"sasl_plain_password_file", "sasl_oauth_token_file"}
    texts = {name: f"a {name}" for name in names - {"ssl_check_hostname"}}
    lines = [f'{name} = "{text}"' for name, text in texts.items()]
    config.write_text(
        "[kafka]\nsecurity_protocol = 'SASL_SSL'\nssl_check_hostname = false\n" + "\n".join(lines)
    )
    found = load(config).kafka.connection()
    expected = texts | {"security_protocol": "SASL_SSL", "ssl_check_hostname": False}
    assert expected.items() <= found.items()


LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism"),
        (LOGIN, "sasl_plain_username"),
        (LOGIN | {"sasl_plain_username": "me"}, "sasl_plain_password_file"),
        (
            LOGIN
            | {
                "sasl_plain_username": "me",
                "sasl_plain_password": "a-secret",
                "sasl_plain_password_file": "file",
            },
            "one of",
        ),
        (LOGIN | {"sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token_file"),
    ],
)
def test_a_login_that_lacks_a_part_is_refused_and_no_secret_is_shown(
    given: dict[str, str], missing: str
) -> None:
    with pytest.raises(SettingsError, match=missing) as caught:
        load(kafka=given)
    assert "a-secret" not in str(caught.value)
    with pytest.raises(ValueError, match=missing) as plainly:
        KafkaSection.model_validate(given)
    assert "a-secret" not in str(plainly.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"\n", "empty"),
        (b"\xff", "no text"),
        (b"x" * 65_537, "longer than"),
        (("\u00e9" * 65_537).encode(), "longer than"),
    ],
)
def test_a_file_without_a_secret_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    secret = RedisSection(password_file=str(path)).secret
    assert secret is not None
    with pytest.raises(NotAvailable, match=rf"\[redis\] password_file = .*{said}") as caught:
        secret.read()
    assert caught.value.fault is not None


def test_every_security_setting_of_kafka_python_that_is_text_is_ours_too() -> None:
    objects = {"ssl_context", "sasl_oauth_token_provider"}
    theirs = {one for one in KafkaConsumer.DEFAULT_CONFIG if one.startswith(("ssl_", "sasl_"))}
    assert theirs - objects <= set(KafkaSection.model_fields)


def test_a_connection_has_only_what_every_kafka_client_takes() -> None:
    found = KafkaSection(bootstrap_servers="a:1, b:2").connection()
    assert found["bootstrap_servers"] == ["a:1", "b:2"]
    assert set(found) <= set(KafkaConsumer.DEFAULT_CONFIG)
    assert "sasl_plain_password" not in found


def test_settings_do_not_change() -> None:
    settings: Settings = load()
    with pytest.raises(ValueError, match="frozen"):
        settings.worker.processes = 3  # type: ignore[misc]


def test_the_buffer_is_four_times_the_slots_unless_it_is_given() -> None:
    assert load(worker={"processes": 3, "slots_per_process": 2}).worker.buffer_size == 24
    assert load(worker={"buffer_limit": 5}).worker.buffer_size == 5


def test_what_becomes_of_failures_is_told_for_all_topics_and_for_each() -> None:
    worker = load(
        worker={
            "dead_letters": "drop",
            "dead_letters_by_topic": {"payments": "stop", "refunds": "keep"},
            "dead_letters_excluded": ["refunds"],
        }
    ).worker
    topics = ("payments", "refunds", "news")
    assert [worker.dead_letters_of(topic) for topic in topics] == ["stop", "none", "drop"]


@pytest.mark.parametrize(
    "given",
    [
        {"dead_letters": "halt"},
        {"dead_letters_by_topic": {"payments": "halt"}},
        {"outage_share": 1},
        {"outage_share": -0.1},
        {"outage_window": 0},
    ],
)
def test_no_other_words_and_shares_are_taken(given: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"\[worker\] (dead_letters|outage)"):
        load(worker=given)


def test_offered_topics_are_a_list_or_a_table_with_the_rules_of_each() -> None:
    listed = load(None, http={"topics": ["payments", "seats"]}).http.topics
    assert {name: one.key for name, one in listed.items()} == {
        "payments": "required",
        "seats": "required",
    }
    table = load(None, http={"topics": {"seats": {"key": "optional", "schema": "seat.json"}}})
    assert table.http.topics["seats"].key == "optional"
    assert table.http.topics["seats"].schema_file == "seat.json"
    with pytest.raises(SettingsError, match=r"\[http\] topics.seats.keys: there is no such"):
        load(None, http={"topics": {"seats": {"keys": "optional"}}})
    with pytest.raises(SettingsError, match=r"\[http\] topics.my seats"):
        load(None, http={"topics": ["my seats"]})
    # The last has a digit of another script.
    for rate in ("as many as there are", "0/second", "1\u0663/second"):
        with pytest.raises(SettingsError, match=r"\[http\] submit_rate"):
            load(None, http={"submit_rate": rate})
    for model in ("payments", "payments:Payment:of", "payments: Payment"):
        with pytest.raises(SettingsError, match=r"\[http\] topics.seats.model"):
            load(None, http={"topics": {"seats": {"model": model}}})
