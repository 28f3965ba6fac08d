"""`onceward-audit` where PySpark, or Jinja2, is not installed."""

from __future__ import annotations

import sys

import pytest

from feedback.errors import ExitCode
from spark_audit.run.command_line import NEEDED, audit_cli


@pytest.mark.parametrize("module", NEEDED)
@pytest.mark.parametrize("arguments", [["run"], ["report", "--date", "2026-11-20"], ["prune"]])
def test_without_its_extra_a_command_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: str,
    arguments: list[str],
) -> None:
    # As where it is not installed: it cannot be found, and not be imported.
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as ended:
        audit_cli()(arguments)
    assert ended.value.code == ExitCode.NOT_AVAILABLE
    printed = capsys.readouterr()
    assert printed.out == ""
    sentence = "error: the audit needs PySpark and Jinja2: pip install 'onceward[audit]'\n"
    assert printed.err.startswith(sentence)
