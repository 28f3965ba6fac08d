"""The documentation is whole: its tables have all that the code has, each page has its place."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from docs import generators
from docs.checks import faults
from docs.drawings.pictures import PICTURES, STATIC, speed_of
from docs.drawings.sequence import sequence
from docs.generators import (
    commands,
    exit_codes,
    headers,
    log_events,
    metrics,
    python_api,
    settings,
    statuses,
    tables,
)
from docs.generators.meanings import MeaningsDiffer, meanings
from feedback.errors import ExitCode
from feedback.status import State
from feedback.statuses import status_of
from tests.documents import DOCS, ROOT, documents
from tests.prose import prose_of

PRODUCT = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")
PLACES = ("tutorials", "how-to", "reference", "explanation")


def test_each_table_that_is_generated_stands_on_one_page() -> None:
    marks = re.findall(r"<!-- generated: (\S+) -->", "\n".join(documents().values()))
    assert sorted(marks) == sorted(generators.GENERATED)


def test_each_page_is_in_the_index_of_its_place() -> None:
    for place in PLACES:
        index = (DOCS / place / "index.md").read_text("utf-8")
        linked = re.findall(r"^- \[[^]]+\]\(([\w-]+)\.md\)", index, re.MULTILINE)
        pages = {path.stem for path in (DOCS / place).glob("*.md")} - {"index"}
        assert sorted(linked) == sorted(pages)


def test_each_link_has_words_for_who_reads_the_files_unbuilt() -> None:
    assert [place for place, text in documents().items() if "[](" in text] == []


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_each_link_of_the_readme_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text("utf-8"))
    assert links
    assert [one for one in links if not (ROOT / one).is_file()] == []


def test_each_setting_has_its_variable_and_its_anchor() -> None:
    page = settings.markdown()
    for section, names in settings.names().items():
        for name in names:
            assert f"`{settings.variable(section, name)}`" in page


def test_a_setting_without_a_sentence_is_named() -> None:
    with pytest.raises(MeaningsDiffer, match=r"add a sentence for \['retries'\], remove \['url'\]"):
        meanings("settings", "registry", ["lease_s", "retries"])


def test_each_command_and_each_of_its_options_is_described() -> None:
    page = commands.markdown()
    found = commands.all_commands()
    assert len(found) > 30
    for one in found:
        section = page.partition(f"({commands.command_anchor(one.words)})=")[2]
        section = section.partition("\n(command-")[0]
        shown = [option for option in one.command.params if not getattr(option, "hidden", False)]
        names = [name for option in shown for name in option.opts if name.startswith("-")]
        assert [name for name in names if f"`{name}`" not in section] == []


def test_each_exit_code_and_each_public_error_is_described() -> None:
    page = exit_codes.markdown()
    assert [one for one in ExitCode if f"| [`{int(one)}`](#{one.entry}) |" not in page] == []
    assert {"NotSent", "SendUnknown", "PayloadMismatch"} <= set(exit_codes.public_errors())
    for name in exit_codes.public_errors():
        assert f"`onceward.{name}`" in page


def test_each_state_and_each_code_is_described() -> None:
    assert [one for one in State if f"`{one}`" not in statuses.states()] == []
    assert {"HANDLER_ERROR", "PAYLOAD_MISMATCH", "TIMEOUT"} <= statuses.all_codes()
    assert [one for one in statuses.all_codes() if f"`{one}`" not in statuses.codes()] == []


def test_each_field_of_a_status_that_redis_has_is_described() -> None:
    known = {*statuses.all_fields(), "request_id"}
    values = dict.fromkeys(known, "1") | {"status": "FAILED", "first": "payments/3/17"}
    told = status_of("order-7", values, set())
    missing = [one.name for one in fields(told) if getattr(told, one.name) in (None, 0)]
    assert missing == []


def test_each_header_is_described() -> None:
    assert {"onceward-request-id", "DLQ_REASON"} <= headers.all_headers()
    assert sorted(headers.all_headers() - headers.described()) == []
    # These are named in a table by their own names, which the source does not repeat.
    assert headers.described() - headers.all_headers() <= {"ORIGINAL_ATTEMPT", "ORIGINAL_DEADLINE"}


def test_each_redis_key_is_described() -> None:
    page = (DOCS / "reference/redis-keys.md").read_text("utf-8")
    found = re.findall(
        r"self\.prefix}([a-z:]+)",
        "\n".join(path.read_text("utf-8") for path in (ROOT / "feedback/redis").glob("*.py")),
    )
    assert {"request:", "worker:", "journal"} <= set(found)
    assert [one for one in found if f"| `{one}" not in page] == []


def test_each_page_that_a_docstring_cites_is_there() -> None:
    titles = {text.partition("\n")[0].removeprefix("# ") for text in documents().values()}
    cited = [
        title
        for text in prose().values()
        for found in re.findall(r"docs: ([A-Z][^).:;]*)", " ".join(text.split()))
        for title in found.split(", ")
        if not title.isdigit()
    ]
    assert len(cited) > 60
    assert sorted({one for one in cited if one not in titles and not one[0].isdigit()}) == []


@cache
def prose() -> dict[str, str]:
    """Return the docstrings and comments of each file of the product that speaks of documents."""
    files = [path for product in PRODUCT for path in (ROOT / product).rglob("*.py")]
    texts = {str(path): path.read_text("utf-8") for path in files}
    return {
        path: "\n".join(said for _, said in prose_of(text))
        for path, text in texts.items()
        if "docs: " in text or "ontract" in text
    }


def test_no_docstring_cites_a_text_that_nobody_has() -> None:
    cites = re.compile(r"contract,? \(?sections? [0-9]", re.IGNORECASE)
    assert [place for place, text in prose().items() if cites.search(" ".join(text.split()))] == []


def test_each_event_of_the_log_is_described() -> None:
    found = log_events.all_events()
    assert {"*.away", "worker.stalled", "redis.emptied"} <= set(found)
    page = log_events.markdown()
    assert [name for name in found if f"`{name}`" not in page] == []
    # Said on a page, and in no line of the source any more.
    ends = {name.rpartition(".")[2] for name in found if name.startswith("*")}
    said = set(re.findall(r"`([a-z_]+\.[a-z_]+)`", _ALL))
    # `request.payload` and `status.by` are attributes of the API.
    heads = {name.partition(".")[0] for name in found} - {"*", "request", "status"}
    stale = {one for one in said - set(found) if one.partition(".")[0] in heads}
    assert sorted(one for one in stale if one.partition(".")[2] not in ends) == []


@pytest.mark.parametrize("name", PICTURES)
def test_each_picture_is_drawn_from_its_text(name: str) -> None:
    assert (STATIC / name).read_text("utf-8") == PICTURES[name](), "run python -m docs.drawings"


def test_the_chart_of_the_bench_has_a_bar_for_each_system_of_its_table() -> None:
    names = [
        "Onceward, SQLite, kafka-python",
        "Onceward, PostgreSQL, kafka-python",
        "Celery 5.7, prefork, Redis",
        "Dramatiq 2.2, Redis",
        "FastStream 0.7, aiokafka",
    ]
    rows = "".join(f"| {name} | {1_000 + n:,} (900 to 2,000) | |\n" for n, name in enumerate(names))
    page = f"<!-- bench:begin -->\n2031-01-02\n\n| | burst | |\n|---|---|---|\n{rows}"
    drawn = speed_of(f"{page}<!-- bench:end -->\n| other | 1 |\n")
    for n, name in enumerate(names):
        assert f">{name}<" in drawn
        assert f">{1_000 + n:,}<" in drawn
    assert drawn.count('class="bar"') == 2
    assert drawn.count('class="other"') == 3
    assert "2031-01-02" in drawn
    assert "Repeat it: make bench ARGS=--peers<" in drawn
    # A longer name moves the bars to the right, and no figure out of the picture.
    begins = int(re.findall(r'<rect class="bar" x="(\d+)"', drawn)[0])
    assert begins > 7.2 * max(map(len, names))
    assert max(int(x) for x in re.findall(r'<text class="text" x="(\d+)"', drawn)) < 720


def test_a_step_between_lanes_that_are_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="child -> bank: charge"):
        sequence("A road\nworker | child\nchild -> bank: charge\n")


def test_each_column_of_each_table_is_described() -> None:
    page = tables.markdown()
    found = tables.all_tables()
    assert {"onceward_request", "onceward_wait", "onceward_outbox"} <= {one.name for one in found}
    for one in found:
        section = page.partition(f"## `{one.name}`")[2].partition("\n## ")[0]
        assert [column.name for column in one.columns if f"| `{column.name}`" not in section] == []


def test_each_metric_that_a_page_names_is_described() -> None:
    described = {one.name for found in metrics.all_metrics().values() for one in found}
    described |= {name.removesuffix("_total") for name in described}
    of_sql = [one.name for one in tables.all_tables()]
    named = re.findall(r"`(onceward_[a-z_]+_(?:total|seconds|open|requests|waiting))`", _ALL)
    assert len(set(named)) > 8
    assert sorted(set(named) - described - set(of_sql)) == []


def test_metrics_are_made_where_the_reference_looks_for_them() -> None:
    making = re.compile(r"^from prometheus_client.* import .*(?:Gauge|Counter|Histogram)", re.M)
    blocks = re.compile(r"^from prometheus_client import \(.*?\)", re.M | re.S)
    found = {
        str(path.relative_to(ROOT))
        for product in PRODUCT
        for path in (ROOT / product).rglob("*.py")
        for text in [blocks.sub(lambda one: " ".join(one[0].split()), path.read_text("utf-8"))]
        if making.search(text)
    }
    assert found == {
        "consumer/ops/health/calls.py",
        "consumer/ops/health/exposed.py",
        "consumer/ops/health/gauges.py",
        "producer_client/http/metrics.py",
        "producer_client/outbox/metrics.py",
        "spark_audit/say/prometheus_file.py",
    }


def test_each_gauge_of_a_worker_is_described() -> None:
    source = (ROOT / "consumer/ops/health/gauges.py").read_text("utf-8")
    made = re.findall(r"_(?:one|by)\(\s*\"([a-z_]+)\"", source)
    described = {one.name for one in metrics.all_metrics()["worker"]}
    assert len(made) > 15
    assert [name for name in made if f"onceward_{name}" not in described] == []


_ALL = "\n".join(documents().values())


def test_each_public_name_is_described_once() -> None:
    described = python_api.described()
    assert len(described) == len(set(described))
    for module in python_api.MODULES:
        face = __import__(module, fromlist=["__all__"])
        names = {name.rpartition(".")[2] for name in described} | {"outbox"}
        assert [name for name in face.__all__ if name not in names] == []


def test_a_dead_link_and_a_thing_from_elsewhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="#here">x</a><p id="here"><a href="b.html#gone">y</a><a href="c.html">z</a>'
        '<script src="https://elsewhere.example/x.js"></script><img src="data:image/png;base64,">'
    )
    (tmp_path / "b.html").write_text('<a href="https://elsewhere.example/">only followed</a>')
    (tmp_path / "s.css").write_text(
        "@import '//elsewhere.example/s.css'; a { background: url(x.png) }"
    )
    assert list(faults(tmp_path)) == [
        "a.html: fetches https://elsewhere.example/x.js",
        "a.html: b.html#gone leads nowhere",
        "a.html: c.html leads nowhere",
        "s.css: fetches //elsewhere.example/s.css",
    ]
