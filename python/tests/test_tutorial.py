"""The tutorial runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


# What Jupyter's own packages warn of is not ours to mend.
@pytest.mark.filterwarnings("default")
def test_the_tutorial_runs_without_warnings_and_draws_its_rules() -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, kernel_name="python3").execute(cwd=str(TUTORIAL.parent))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [it for it in outputs if "image/png" in it.get("data", {})]
    assert len(pictures) == 2
    assert [it["text"] for it in outputs if it.get("name") == "stderr"] == []
