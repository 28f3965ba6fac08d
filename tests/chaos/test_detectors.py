"""Each detector turns red against a worker with that fault planted, and stays green without one."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.orders import Deed
from tests.chaos.place import REAL, Modules
from tests.chaos.planted import forgetful
from tests.chaos.row import Row
from tests.chaos.rows import ROWS
from tests.chaos.running import Result, run_row
from tests.stack import Servers

SEED = 1
pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def _own_settings(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row's own settings name the servers; those of the environment would win."""
    for name in servers.settings():
        monkeypatch.delenv(name, raising=False)


def run(row: Row, servers: Servers, folder: Path, modules: Modules = REAL) -> Result:
    folder = folder / "row"
    return run_row(row, seed=SEED, short=True, servers=servers, folder=folder, modules=modules)


def worker(name: str) -> Modules:
    return Modules(worker=f"tests.chaos.planted.{name}")


def impatient(name: str, *, tell_within_s: float = 6.0) -> Row:
    return replace(ROWS[name], tell_within_s=tell_within_s, settle_s=1.0)


def test_without_a_fault_all_is_green(servers: Servers, tmp_path: Path) -> None:
    result = run(ROWS["none"], servers, tmp_path)

    assert result.good, result.reasons
    assert result.account.orders == 400


def test_dispatching_before_the_claim_is_committed_is_seen_as_run_twice(
    servers: Servers, tmp_path: Path
) -> None:
    # What such a worker leaves is LOST, and runs again when the resender has found it.
    row = impatient("all-workers-kill", tell_within_s=30.0)
    result = run(row, servers, tmp_path, worker("unclaimed"))

    assert result.account.ran_twice, result.as_json()


def test_final_statuses_that_are_not_written_are_seen_as_never_told(
    servers: Servers, tmp_path: Path
) -> None:
    result = run(impatient("none"), servers, tmp_path, worker("untold"))

    assert result.account.never_told, result.as_json()
    assert not result.account.ran_twice


def test_a_failure_that_is_told_as_success_is_seen_as_told_wrongly(
    servers: Servers, tmp_path: Path
) -> None:
    result = run(impatient("none"), servers, tmp_path, worker("flattering"))

    assert result.account.told_wrongly, result.as_json()
    assert not result.account.ran_twice


def test_a_success_that_is_told_as_failure_is_seen_as_told_wrongly_and_its_order_as_run_twice(
    servers: Servers, tmp_path: Path
) -> None:
    result = run(impatient("none"), servers, tmp_path, worker("denying"))

    assert result.account.told_wrongly, result.as_json()
    assert result.account.ran_twice


def test_a_failure_that_runs_again_after_it_was_told_is_seen_as_told_wrongly_and_run_twice(
    servers: Servers, tmp_path: Path
) -> None:
    modules = Modules(resender="tests.chaos.planted.reviving")
    row = replace(impatient("none"), troubles={Deed.BUSY: 0.05})
    result = run(row, servers, tmp_path, modules)

    assert result.account.told_wrongly, result.as_json()
    assert result.account.ran_twice


def test_not_sent_that_is_told_of_what_was_sent_is_seen_as_told_wrongly_and_run_twice(
    servers: Servers, tmp_path: Path
) -> None:
    with forgetful.plant():
        result = run(impatient("none"), servers, tmp_path)

    assert result.account.not_sent
    assert result.account.told_wrongly, result.as_json()
    assert result.account.ran_twice
