"""``python -m tests.support.notebook_outputs [NOTEBOOK ...]`` runs notebooks and keeps their outputs in them.

What differs from run to run, such as when a cell ran, is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def is_kept(output):
    """Whether an output says something: progress lines are empty at their end."""
    return output["output_type"] != "display_data" or bool("".join(output["data"].get("text/plain", "x")))


def write_outputs(path):
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", path]
    subprocess.run(command, check=True)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if "outputs" in cell:
            cell["outputs"] = list(filter(is_kept, cell["outputs"]))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(map(str, (ROOT / "notebooks").glob("*.ipynb"))):
        write_outputs(Path(name))
