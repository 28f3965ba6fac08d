"""`python -m tests.kit.axe`: fetch the script, for tests that come later."""

from tests.kit.axe import axe_jar

axe_jar()
