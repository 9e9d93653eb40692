"""How Sphinx makes the site from this directory: `make docs`."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

import oboro


def _git(*words: str) -> str:
    """What git says of this repository; nothing where there is none."""
    try:
        ran = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True
        )
    except FileNotFoundError:
        return ""
    return ran.stdout.strip()


def _build() -> dict[str, str]:
    """The commit that the site is made from, and the repository if it is public."""
    origin = _git("config", "remote.origin.url")
    # An address may have a name and a password in it.
    is_public = origin.startswith("https://") and "@" not in origin
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "repository": origin.removesuffix(".git") if is_public else "",
    }


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
templates_path = ["templates"]
html_context = _build()

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


def _words(page: str, pages: list[str]) -> list[str]:
    """The words of a command, by its manual page's name: a command may have hyphens itself."""
    above = [other for other in pages if page.startswith(f"{other}-")]
    if not above:
        return [page]
    parent = max(above, key=len)
    return [*_words(parent, pages), page.removeprefix(f"{parent}-")]


def _add_reference(_app: Sphinx, page: str, content: list[str]) -> None:
    """Puts the help of every command on its page. The manual pages tell which there are."""
    if page != "commands":
        return
    oboro = os.environ["OBORO_BIN"]
    with tempfile.TemporaryDirectory() as pages:
        subprocess.run([oboro, "man", pages], check=True, stdout=subprocess.DEVNULL)
        names = sorted(path.stem for path in Path(pages).iterdir())
    for name in names:
        words = _words(name, names)
        shown = [oboro, *words[1:], "--help"]
        text = subprocess.run(shown, check=True, stdout=subprocess.PIPE, text=True).stdout
        content[0] += f"\n### {' '.join(words)}\n\n```text\n{text}```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", lambda _app, _page, content: _link_pages(content))
    app.connect("source-read", _add_reference)
    app.connect("include-read", lambda _app, _file, _page, content: _link_pages(content))
    app.connect(
        "autodoc-process-docstring",
        lambda _app, _what, name, documented, _options, lines: _list_metrics(
            name, documented, lines
        ),
    )
