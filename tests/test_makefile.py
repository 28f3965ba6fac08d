"""`make` and `.ci/run` on machines and for users that are not like ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.failure_report import sections
from tests.kit.script import write_script
from tests.stack import Servers

ROOT = Path(__file__).parents[1]
LIMIT_S = 60.0
# As `make test` has it that runs this test, which is no matter of the one under test.
OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
WORDS = "two words"
# A program that has these words among its arguments waits to be told to end.
PYTHON = f"""
import os, signal, sys
print(*(os.environ[name] for name in ("no_proxy", "NO_PROXY")), *sys.argv[1:])
if any("{WORDS}" in one for one in sys.argv):
    signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
    print("up", flush=True)
    told = signal.sigtimedwait({{signal.SIGTERM}}, 20)
    print("told" if told else "never told", flush=True)
"""
# One that is too old.
OLD = "import sys; sys.version_info = (3, 10, 4); exec(sys.argv[2])"
# As Sphinx begins.
SPHINX = "import locale; locale.setlocale(locale.LC_ALL, '')"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return a virtual environment with programs that only look at how they are started."""
    programs = tmp_path / "bin"
    programs.mkdir()
    write_script(programs / "python", PYTHON)
    write_script(programs / "sphinx-build", SPHINX)
    (tmp_path / ".ready").touch()
    return tmp_path


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def make(environment: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    ours = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.Popen(
        ("make", "-C", str(ROOT), f"VENV={environment}", *words),
        env=ours | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("target", ["test", "demo", "simulate", "bench", "chaos", "fuzz"])
def test_a_signal_reaches_the_command_also_where_its_arguments_have_quotes(
    environment: Path, target: str
) -> None:
    command = make(environment, target, f'ARGS=-k "{WORDS}"')
    assert command.stdout is not None
    assert any(line == "up\n" for line in command.stdout)
    command.terminate()
    said, _ = command.communicate(timeout=LIMIT_S)
    assert "told" in said.splitlines()


def test_the_documentation_is_built_where_the_language_of_the_login_is_not_installed(
    environment: Path,
) -> None:
    docs = make(environment, "docs", LC_ALL="xx_XX.UTF-8")
    said, _ = docs.communicate(timeout=LIMIT_S)
    assert docs.returncode == 0, said


@pytest.mark.parametrize("given", ["no_proxy", "NO_PROXY"])
def test_servers_on_this_machine_are_not_asked_through_a_proxy(
    environment: Path, given: str
) -> None:
    said, _ = make(environment, "simulate", **{given: "bank.example"}).communicate(timeout=LIMIT_S)
    for told in said.splitlines()[-2].split()[:2]:
        assert {"127.0.0.1", "localhost", "bank.example"} <= {*told.split(",")}


def test_all_clients_can_read_which_servers_need_no_proxy(environment: Path) -> None:
    given = {"no_proxy": "[::1], fd00::/8,bank.example", "NO_PROXY": "*.corp"}
    said, _ = make(environment, "simulate", **given).communicate(timeout=LIMIT_S)
    for told in said.splitlines()[-2].split()[:2]:
        assert told == "127.0.0.1,localhost,*.corp,bank.example"


def test_a_proxy_and_a_password_stay(environment: Path) -> None:
    kept = {"HTTPS_PROXY": "http://proxy.example:3128", "PGPASSWORD": "p", "PGPASSFILE": "f"}
    seen = f"import os, sys\nsys.exit(not {kept}.items() <= os.environ.items())"
    write_script(environment / "bin/python", seen)
    ran = make(environment, "simulate", **kept)
    said, _ = ran.communicate(timeout=LIMIT_S)
    assert ran.returncode == 0, said


@pytest.mark.parametrize(
    "name",
    ["say 'a'", 'say "a"', "$HOME", "$(HOME)", "`id`", "a\\b", r"\u00fc", "#", "%", "!", "*"],
)
def test_a_failing_test_is_repeated_whatever_its_name(environment: Path, name: str) -> None:
    nodeid = f"tests/test_a.py::test_b[{name}]"
    write_script(environment / "bin/python", "import sys\nprint(sys.argv[-1])")
    command = dict(sections(nodeid, Servers()))["to repeat it"]
    ours = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    said = subprocess.check_output(
        command, shell=True, cwd=ROOT, env=ours | {"VENV": str(environment)}, text=True
    )
    assert said.splitlines()[-1] == nodeid


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONDEVMODE", "1"),
        ("PYTHONHOME", "/nowhere"),
        ("PYTHONINSPECT", "1"),
        ("PYTHONOPTIMIZE", "2"),
        ("PYTHONSAFEPATH", "1"),
        ("PYTHONWARNINGS", "error"),
        ("PYTEST_ADDOPTS", "--collect-only"),
        ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"),
        ("PYTEST_PLUGINS", "of_another_project"),
        ("PGSSLMODE", "require"),
        ("PGHOSTADDR", "192.0.2.1"),
        ("SPARK_HOME", "/opt/spark-3"),
        ("PYSPARK_PYTHON", "python2"),
        ("HADOOP_CONF_DIR", "/etc/hadoop"),
        ("ALL_PROXY", "socks5://127.0.0.1:1080"),
        ("https_proxy", "socks5h://127.0.0.1:1080"),
    ],
)
def test_python_and_what_it_runs_do_as_for_everybody(
    environment: Path, name: str, value: str
) -> None:
    seen = f"import os, sys\nsys.exit('{name}' in os.environ)"
    write_script(environment / "bin/python", seen)
    ran = make(environment, "simulate", **{name: value})
    said, _ = ran.communicate(timeout=LIMIT_S)
    assert ran.returncode == 0, said


def test_a_python_that_is_too_old_is_one_sentence(tmp_path: Path) -> None:
    old = write_script(tmp_path / "python3.10", OLD)
    none = tmp_path / "none"
    said, _ = make(none, "setup", f"PYTHON={old}").communicate(timeout=LIMIT_S)
    assert f"{old} is Python 3.10, and 3.11 to 3.13 are supported" in said
    assert not none.exists()


def test_pip_is_the_environments_own_and_installs_there_whatever_its_settings(
    environment: Path,
) -> None:
    (environment / ".ready").unlink()
    said, _ = make(environment, "setup", "PYTHON=true").communicate(timeout=LIMIT_S)
    ran = [line for line in said.splitlines() if line.startswith("127.0.0.1") and " pip " in line]
    assert len(ran) == 3
    assert [line for line in ran if " install --no-user " not in line] == []


def test_the_tests_of_ci_are_all_those_of_its_own_checkout(tmp_path: Path) -> None:
    program(tmp_path / "make", '#!/bin/sh\npwd\necho "$@"\n')
    (tmp_path / "others/.ci").mkdir(parents=True)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    foreign = {"PATH": path, "CDPATH": str(tmp_path / "others"), "ARGS": "tests/test_names.py"}
    said = subprocess.check_output((".ci/run",), cwd=ROOT, env=os.environ | foreign, text=True)
    assert said.splitlines() == [str(ROOT), "test ARGS="]


def test_lines_end_as_shells_want_them_whatever_the_users_git_makes_of_them(tmp_path: Path) -> None:
    (tmp_path / ".gitattributes").write_bytes((ROOT / ".gitattributes").read_bytes())
    (tmp_path / "run").write_bytes(b"one\ntwo\n")
    git = ("git", "-C", str(tmp_path), "-c", "core.autocrlf=true")
    # In a hook of git it names the repository of the hook, which would lose its index here.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run((*git, *words), env=ours, check=True, capture_output=True, timeout=LIMIT_S)
    (tmp_path / "run").unlink()
    subprocess.run((*git, "checkout-index", "-a"), env=ours, check=True, timeout=LIMIT_S)
    assert (tmp_path / "run").read_bytes() == b"one\ntwo\n"
