"""The audit as one file: what is in it, and that Python runs it by itself."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from feedback.errors import ExitCode
from spark_audit.run.commands import cli
from spark_audit.run.package import write_package
from tests.kit.settings import environment

LIMIT_S = 150.0
# Prints where each module of ours came from once the job and all that it says are imported.
_WHERE = """
import sys
sys.path.insert(0, sys.argv[1])
import spark_audit.run.commands, spark_audit.run.audit
for name, module in list(sys.modules.items()):
    if name.split(".")[0] in ("consumer", "feedback", "producer_client", "spark_audit"):
        print(module.__file__)
"""


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Return the file."""
    target = tmp_path / "onceward-audit.py"
    write_package(target)
    return target


def _python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, *arguments),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def test_all_that_the_audit_imports_of_ours_comes_out_of_the_file(
    packed: Path, tmp_path: Path
) -> None:
    done = _python("-c", _WHERE, str(packed), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    places = done.stdout.splitlines()
    assert len(places) > 30
    assert [one for one in places if not one.startswith(f"{packed}/")] == []


def test_python_runs_the_file_as_the_command(packed: Path, tmp_path: Path) -> None:
    told = _python(str(packed), "--version", folder=tmp_path)
    assert told.returncode == ExitCode.FINE, told.stderr
    assert told.stdout.startswith("onceward-audit.py, version ")
    (tmp_path / "wrong.toml").write_text("[audit]\nnonsense = 1\n")
    refused = _python(str(packed), "run", "--config", "wrong.toml", folder=tmp_path)
    assert refused.returncode == ExitCode.USAGE
    assert "[audit] nonsense" in refused.stderr


def test_the_file_is_the_same_each_time_and_can_be_made_from_itself(
    packed: Path, tmp_path: Path
) -> None:
    first = packed.read_bytes()
    # Times are kept to two seconds: two that were made at once would be the same by chance.
    with ZipFile(packed) as archive:
        assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    write_package(packed)
    assert packed.read_bytes() == first
    done = _python(str(packed), "package", "--output", "again.py", folder=tmp_path)
    assert done.returncode == ExitCode.FINE, done.stderr
    assert (tmp_path / "again.py").read_bytes() == first
    assert {one.name for one in tmp_path.iterdir()} == {packed.name, "again.py"}


def test_a_name_that_spark_would_take_for_a_jar_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["package", "--output", str(tmp_path / "audit.zip")])
    assert done.exit_code == ExitCode.USAGE
    assert "must end in .py" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["package", "--output", str(tmp_path / "no" / "audit.py")])
    assert done.exit_code == ExitCode.NOT_AVAILABLE
    assert done.stderr.startswith("error: ")
    assert "No such file or directory" in done.stderr
