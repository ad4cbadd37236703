"""Every snippet of the documentation runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README*.md")],
    key=lambda path: str(path.relative_to(ROOT)),
)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def console_blocks(document: Document) -> list[Region]:
    """Find ```console blocks; of their commands, those of ``dshpy`` are run."""
    return [Region(found.start(), found.end(), found[1], run_console) for found in CONSOLE.finditer(document.text)]


def run_console(example: Example) -> str | None:
    """Run each ``$ dshpy …`` line and compare what it prints; ``…`` in the text stands for anything."""
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", example.parsed, re.MULTILINE):
        if not command.startswith("dshpy"):
            continue
        argv = [sys.executable, "-m", "dsh_cli", *shlex.split(command)[1:]]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT)
        printed = "\n".join(line.rstrip() for line in (done.stdout + done.stderr).split("\n"))
        pattern = ".*?".join(re.escape(part) for part in expected.rstrip("\n").split("…"))
        if not re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL):
            return f"{command} printed:\n{printed}\nexpected:\n{expected}"
    return None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_snippets_run(path, tmp_path, monkeypatch):
    """Python blocks execute in order in one namespace; console blocks print what they show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # whoever runs this has hooks of their own
    document = Sybil([PythonCodeBlockParser(), console_blocks]).parse(path)

    for example in document.examples():
        example.evaluate()

    assert document.text


def test_there_are_documents():
    """An empty list of documents would prove nothing."""
    assert {"README.md", "docs/architecture.md"} <= {str(path.relative_to(ROOT)) for path in DOCUMENTS}
