"""`python -m tests.kit.axe`: fetch the script, for tests that come later."""

from tests.kit.axe import axe_jar
from tests.kit.in_words import in_words

with in_words():
    axe_jar()
