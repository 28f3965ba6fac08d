"""`onceward-audit` as it is run at night, with its output in a bucket: killed, and two at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from feedback.errors import ExitCode
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.output.holder import Holder
from tests.eventually import eventually
from tests.kit.settings import environment
from tests.spark_audit.command import LIMIT_S, ROOT
from tests.spark_audit.hadoop import in_bucket, s3a_settings
from tests.spark_audit.jars import S3A, audit_jars
from tests.spark_audit.run.scene import IDS, Scene
from tests.spark_audit.small import SMALL
from tests.spark_audit.stage.samples import DATE
from tests.stack.s3 import S3

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]
# A run that has come so far is killed: the folder in which something is.
MOMENTS = (f"snapshot/date={DATE}", f"judged/date={DATE}", f"reports/date={DATE}")


@dataclass(frozen=True, slots=True)
class Night:
    """The command, and the bucket that it writes to.

    Args:
        output: as the test itself sees it.
    """

    config: Path
    s3: S3
    output: HadoopPath

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        """Start the command."""
        conf = {f"spark.hadoop.fs.s3a.{key}": one for key, one in s3a_settings(self.s3).items()}
        return subprocess.Popen(
            [sys.executable, "-m", "spark_audit", name, "--config", str(self.config), *arguments],
            cwd=ROOT,
            env=environment(ONCEWARD_AUDIT__SPARK_CONF=json.dumps(SMALL | conf)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, started: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Return how it ended, and what it printed."""
        stdout, stderr = started.communicate(timeout=LIMIT_S)
        assert self.s3.secret not in stdout + stderr
        return started.returncode, stdout, stderr

    def run(self, name: str, *arguments: str) -> tuple[int, str, str]:
        """Run the command to its end."""
        return self.end(self.start(name, *arguments))

    def kill(self, started: subprocess.Popen[str]) -> None:
        """Kill it, and return when its Java has ended by itself."""
        holder = Holder.of_text((self.output / ".lock").read_text())
        assert holder is not None
        started.send_signal(signal.SIGKILL)
        started.communicate()
        eventually(lambda: holder.is_gone, timeout_s=60.0, what="the end of its Java")

    def texts(self) -> Iterator[str]:
        """Yield what stands in the files that people and programs read."""
        folder = next((self.output / "reports" / f"date={DATE}").iterdir())
        yield from (one.read_text() for one in folder.iterdir())
        yield from (one.read_text() for one in self.output.iterdir() if one.is_file())


@pytest.fixture
def night(scene: Scene, s3: S3, tmp_path: Path) -> Night:
    """Return the command with an empty output."""
    place, settings = in_bucket(scene.spark, s3), scene.settings()
    config = tmp_path / "settings.toml"
    config.write_text(f"""
[kafka]
bootstrap_servers = "{settings.kafka.bootstrap_servers}"
group = "{settings.kafka.group}"
[redis]
url = "{settings.redis.url}"
[journal]
url = "{settings.journal.url}"
[audit]
topics = ["{scene.topic}"]
output = "{place}"
jars = "{audit_jars(profile=S3A)[0].parent}"
spark_master = "local[2]"
fail_on = "lost>0"
""")
    return Night(config, s3, HadoopPath.of(scene.spark, place))


def test_a_run_that_was_killed_is_followed_by_the_next_without_anybody(night: Night) -> None:
    for moment in MOMENTS:
        started = night.start("run", "--date", DATE)
        kind, date = moment.split("/")
        folder = night.output / kind / date
        eventually(folder.is_dir, timeout_s=LIMIT_S, what=moment)
        night.kill(started)
    code, stdout, stderr = night.run("run", "--date", DATE, "--json")
    assert code == ExitCode.BAD_ANSWER, stderr
    assert "audit.lock_taken_over" in stderr
    summary = json.loads(stdout)
    assert summary["counts"]["requests"] == summary["offsets"]["judged"] == len(IDS)
    assert summary["counts"]["findings"]["lost"] == 1
    assert list(night.output.glob(".lock*")) == []
    assert not any(night.s3.secret in one for one in night.texts())
    assert night.run("report", "--date", DATE)[0] == ExitCode.BAD_ANSWER
    assert night.run("prune", "--json")[0] == ExitCode.FINE


def test_a_run_that_is_told_to_stop_gives_the_lock_back(night: Night) -> None:
    for moment in MOMENTS[:2]:
        started = night.start("run", "--date", DATE)
        kind, date = moment.split("/")
        eventually((night.output / kind / date).is_dir, timeout_s=LIMIT_S, what=moment)
        started.send_signal(signal.SIGTERM)
        code, _, stderr = night.end(started)
        assert (code, stderr.splitlines()[-2]) == (ExitCode.CUT, "interrupted")
        assert list(night.output.glob(".lock*")) == []


def test_of_two_at_once_one_judges_and_the_other_is_told(night: Night) -> None:
    both = [night.start("run", "--date", DATE) for _ in range(2)]
    ended = sorted(night.end(one) for one in both)
    assert [code for code, _, _ in ended] == [ExitCode.BAD_ANSWER, ExitCode.NOT_AVAILABLE]
    (told,) = [one for one in ended[1][2].splitlines() if one.startswith("error: ")]
    assert told.startswith(f"error: another audit writes to {night.output}")


def test_a_wrong_key_is_one_sentence_without_it(night: Night) -> None:
    wrong = S3(port=night.s3.port, key=night.s3.key)
    code, _, stderr = Night(night.config, wrong, night.output).run("run", "--date", DATE)
    assert code == ExitCode.NOT_AVAILABLE
    (told,) = [one for one in stderr.splitlines() if one.startswith("error: ")]
    assert "The request signature we calculated does not match" in told
