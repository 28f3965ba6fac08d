"""Logs: text and JSON lines, and nothing from outside forges one."""

import io
import json
import logging
import sys

import pytest

from feedback.logs import EventLog, configure, context, event_of

log = EventLog("onceward.test")
HOSTILE = [
    "a\n12:00:00.000 INFO    request.succeeded",
    "a\r\n\x1b[2J\x1b]0;title\x07",
    "a\u2028b\u2029c\x85d\x0b\x0c",
    "\u202egnp.exe",
    "nul\x00del\x7f",
    "half a pair \ud800",
]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal() -> Terminal:
    stream = Terminal()
    configure(stream=stream)
    return stream


@pytest.fixture
def collector() -> io.StringIO:
    stream = io.StringIO()
    configure(stream=stream)
    return stream


@pytest.fixture
def application() -> io.StringIO:
    """Return what an application writes whose formatter is the plain default."""
    stream = io.StringIO()
    target = logging.StreamHandler(stream)
    target.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    logging.getLogger().handlers[:] = [target]
    return stream


def fail(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("worker.failed", request_id=text)


def test_a_terminal_gets_text(terminal: Terminal) -> None:
    log.info("request.claimed", request_id="r", generation=1, reason="two words", empty="")
    moment, rest = terminal.getvalue().split(" ", 1)
    assert len(moment) == len("12:00:00.000")
    assert rest == (
        'INFO    request.claimed request_id=r generation=1 reason="two words" empty=""\n'
    )


def test_everything_else_gets_json_lines(collector: io.StringIO) -> None:
    log.warning("redis.away", reason='a "reason"\n', waiting=3, nothing=None)
    line = json.loads(collector.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "onceward.test",
        "event": "redis.away",
        "reason": 'a "reason"\n',
        "waiting": 3,
        "nothing": None,
    }


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_field_cannot_forge_a_line_of_text(terminal: Terminal, text: str) -> None:
    log.info("request.claimed", request_id=text)
    line = terminal.getvalue()
    assert line.endswith("\n")
    assert line[:-1].isprintable()


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_field_cannot_forge_a_json_line(collector: io.StringIO, text: str) -> None:
    log.info("request.claimed", request_id=text)
    fail(text)
    lines = collector.getvalue().splitlines()
    assert [json.loads(line)["request_id"] for line in lines] == [text, text]
    assert all(line.isascii() and line.isprintable() for line in lines)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_the_text_of_an_error_cannot_pass_for_a_line(terminal: Terminal, text: str) -> None:
    fail(text)
    first, *stack = terminal.getvalue()[:-1].split("\n")
    assert "worker.failed" in first
    assert stack
    for line in stack:
        assert line.startswith("    ")
        assert line.isprintable()


def test_a_stack_of_ours_is_shown(terminal: Terminal, collector: io.StringIO) -> None:
    fail("broken")
    line = json.loads(collector.getvalue())
    assert line["stack"].endswith("ValueError: broken")
    configure(stream=terminal)
    fail("broken")
    assert terminal.getvalue().endswith("    ValueError: broken\n")


def test_values_cannot_pass_for_other_fields(terminal: Terminal) -> None:
    log.info("request.claimed", request_id="a generation=9", generation=1)
    assert terminal.getvalue().endswith('request_id="a generation=9" generation=1\n')


def test_the_lines_of_other_libraries_are_escaped_too(terminal: Terminal) -> None:
    logging.getLogger("other").warning("from %s", "a\nb")
    assert terminal.getvalue().endswith("WARNING from a\\nb\n")


def test_what_json_cannot_hold_is_logged_as_text(collector: io.StringIO) -> None:
    log.info("x", path=ValueError("e"), raw=b"\x00")
    line = json.loads(collector.getvalue())
    assert (line["path"], line["raw"]) == ("e", "b'\\x00'")


def test_the_level_decides_and_kafka_is_quiet(collector: io.StringIO) -> None:
    log.debug("not.told")
    logging.getLogger("kafka.conn").error("not told")
    assert collector.getvalue() == ""
    configure(level="DEBUG", stream=collector)
    log.debug("told")
    log.error("told.too")
    assert len(collector.getvalue().splitlines()) == 2


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_what_a_handler_raised_is_logged_without_its_text(stream: io.StringIO) -> None:
    configure(stream=stream)
    card = "-".join(["4111", "1111"])
    try:
        try:
            int(card)
        except ValueError as cause:
            raise KeyError(card) from cause
    except KeyError as error:
        log.raised("handler.raised", error, request_id="a")
    text = stream.getvalue()
    assert all(word in text for word in ("handler.raised", "KeyError", "ValueError", "test_logs"))
    assert card not in text


def test_a_line_that_cannot_be_written_is_nothing_to_the_code_that_logs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    card = "-".join(["4111", "1111"])
    _configure_closed()
    try:
        raise Mute from KeyError(card)
    except Mute as error:
        log.raised("handler.raised", error, request_id="a")
        logging.getLogger("users.own").error("%d", card)
    told = capsys.readouterr().err
    assert "cannot log a line of onceward.test" in told
    assert f"cannot log a line of users.own, {__file__}:" in told
    assert all(word in told for word in ("ValueError", "Mute", "KeyError", "TypeError"))
    assert card not in told


def _configure_closed() -> io.StringIO:
    """Configure a stream that takes nothing, in the place of pytest's handlers: these raise."""
    stream = io.StringIO()
    configure(stream=stream)
    stream.close()
    return stream


def test_there_may_be_nobody_to_tell_that_a_line_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = _configure_closed()
    for nobody in (closed, None):
        monkeypatch.setattr(sys, "stderr", nobody)
        log.error("worker.failed")


def test_the_message_carries_the_fields_where_an_application_formats_it(
    application: io.StringIO,
) -> None:
    log.warning("redis.away", reason="two words", waiting=3, share="5%")
    log.warning("redis.back")
    assert application.getvalue().splitlines() == [
        'WARNING:onceward.test:redis.away reason="two words" waiting=3 share=5%',
        "WARNING:onceward.test:redis.back",
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_field_cannot_forge_a_line_of_an_application(application: io.StringIO, text: str) -> None:
    log.error("request.claimed", request_id=text)
    line = application.getvalue()
    assert line.endswith("\n")
    assert line[:-1].isprintable()


def test_what_a_handler_raised_names_its_class_in_an_applications_log(
    application: io.StringIO,
) -> None:
    log.raised("handler.raised", ValueError("4111"), request_id="a")
    assert application.getvalue() == (
        "ERROR:onceward.test:handler.raised request_id=a error=ValueError\n"
    )


def test_an_event_keeps_its_name_and_one_template(caplog: pytest.LogCaptureFixture) -> None:
    log.error("redis.away", waiting=1)
    log.error("redis.away", waiting=2)
    logging.getLogger("other").error("from %s", "a")
    assert [event_of(one) for one in caplog.records] == ["redis.away", "redis.away", "from a"]
    assert {one.msg for one in caplog.records[:2]} == {"redis.away %s"}


def test_a_users_line_names_its_context_and_keeps_its_own_fields(collector: io.StringIO) -> None:
    with context(request_id="a", generation=2):
        logging.getLogger("shop").warning("refused", extra={"amount": 5, "level": "forged"})
    logging.getLogger("shop").warning("outside")
    first, second = map(json.loads, collector.getvalue().splitlines())
    assert (first["event"], first["request_id"], first["generation"]) == ("refused", "a", 2)
    assert (first["amount"], first["level"]) == (5, "warning")
    assert "request_id" not in second


def test_a_terminal_shows_the_context_behind_the_users_words(terminal: Terminal) -> None:
    with context(request_id="a\nb"):
        logging.getLogger("shop").info("charged", extra={"amount": 5})
    assert terminal.getvalue().rstrip().endswith("charged request_id=a\\nb amount=5")
