"""How Sphinx builds the documentation: ``sphinx-build -W docs out``."""

import importlib.metadata

project = "seqmap"
release = importlib.metadata.version("seqmap")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
highlight_language = "none"  # what a program prints is no program
html_theme = "furo"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_title = f"seqmap {release}"
exclude_patterns = ["upstream"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
# Pages of the repository that are no part of the documentation.
suppress_warnings = ["myst.xref_missing"]
