"""axe-core: what a person who cannot see or point finds wrong with a page.

Its script is fetched once by Maven and kept in the user's cache: `python -m tests.kit.axe`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from selenium import webdriver

from onceward.servers.cache import cache_folder
from onceward.servers.jars import fetch
from tests.kit.packages import install_missing

POM = Path(__file__).with_name("pom.xml")
# Those of WCAG 2.1 AA, and those that are no part of it and help all the same.
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")
_RUN = """
const [tags, done] = arguments;
axe.run({runOnly: tags}).then(
    found => done(found.violations.map(one => [one.id, one.impact, one.nodes[0].failureSummary])),
    error => done([["axe", "failed", String(error)]]));
"""


class Violation(NamedTuple):
    """A rule that a page breaks.

    Args:
        impact: minor, moderate, serious or critical.
        summary: how to mend the first place.
    """

    rule: str
    impact: str
    summary: str


def axe_jar() -> Path:
    """Return the jar with the script, fetched where it is not there yet.

    Raises:
        StackError: Maven is missing or failed.
    """
    version = ElementTree.parse(POM).findtext(".//{*}axe.version")
    target = cache_folder() / f"axe-{version}"
    if not target.is_dir():
        install_missing(["mvn"])
        fetch(POM, target, "axe-core")
    (jar,) = target.glob("*.jar")
    return jar


def violations(browser: webdriver.Chrome) -> list[Violation]:
    """Return the rules that the browser's page breaks; its own policy may let no script run."""
    with zipfile.ZipFile(axe_jar()) as jar:
        browser.execute_script(jar.read("axe.min.js").decode())
    found = browser.execute_async_script(_RUN, list(TAGS))
    return [Violation(*one) for one in found]
