"""How Sphinx makes the site from this directory: `make docs`."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

import oboro

project = "Oboro"
author = "the Oboro authors"
release = oboro.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_custom_sections = [("Arguments", "params_style")]

# The page of `make papers` and its results.json, which stand beside the site's own pages.
html_extra_path = ["papers"]
html_theme = "furo"
html_title = "Oboro"

# Documents at the top of the repository have pages here that include them, and link to each other.
PAGES = {
    "README": "index",
    "ARCHITECTURE": "architecture",
    "SECURITY": "security",
    "CONTRIBUTING": "contributing",
}
TO_TOP = re.compile(rf"\]\((?:\.\./)?({'|'.join(PAGES)})\.md")
TO_LICENCE = re.compile(r"\[([^\]]+)\]\(LICENSE\)")


def _link_pages(content: list[str]) -> None:
    text = TO_TOP.sub(lambda link: f"]({PAGES[link[1]]}.md", content[0])
    content[0] = TO_LICENCE.sub(r"\1", text)


def _list_metrics(name: str, metrics: object, lines: list[str]) -> None:
    if name == "oboro.frequent_patterns.METRICS" and isinstance(metrics, dict):
        lines += ["", *(f"* ``{metric}``: {meaning}" for metric, meaning in metrics.items())]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", lambda _app, _page, content: _link_pages(content))
    app.connect("include-read", lambda _app, _file, _page, content: _link_pages(content))
    app.connect(
        "autodoc-process-docstring",
        lambda _app, _what, name, documented, _options, lines: _list_metrics(
            name, documented, lines
        ),
    )
