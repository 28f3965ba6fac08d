"""Sphinx's settings: pages of MyST Markdown, the furo theme, and nothing from the network."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

# Sphinx runs this file with its own folder as the place, not the repository.
sys.path.insert(0, str(Path(__file__).parents[1]))

from feedback import __version__

# Millions of small objects that all stay to the end: to look for garbage took half of a build.
gc.disable()

project = "Onceward"
author = "The Onceward project"
version = release = __version__
copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs.generators"]
exclude_patterns = ["drawings", "generators", "meanings"]
root_doc = "index"
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4

# A name in backticks is code, in docstrings too.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"Onceward {release}"
html_static_path = ["static"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
# One style for code in light and one in dark, both with a contrast of 4.5 and more.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
