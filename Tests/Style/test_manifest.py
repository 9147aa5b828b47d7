"""The table of targets in docs/architecture.md is what the manifest says."""

import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# In no product, and described where they are used.
APART = {"UploadSimulation", "uploadfs-simulate"}


def targets():
    """The targets below Sources, each with those that it depends on; without the libraries' module maps."""
    found = {}
    for text in re.split(r"\.(?:executableTarget|target)\(", (REPOSITORY / "Package.swift").read_text())[1:]:
        name = re.match(r'\s*name: "([^"]+)"', text)
        if not name or name[1] in APART or 'path: "Tests' in text or not (REPOSITORY / "Sources" / name[1]).is_dir():
            continue
        dependencies = re.search(r"dependencies: \[(.*?)\](?=,|\))", text, re.DOTALL)
        named = re.sub(r"\.product\([^)]*\)", "", dependencies[1]) if dependencies else ""
        found[name[1]] = {need for need in re.findall(r'"([^"]+)"', named) if not need.endswith("System")}
    return found


def test_the_table_of_targets_is_the_manifests():
    """Regression (TX): the table lacked targets, and said that others depend on nothing."""
    document = (REPOSITORY / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`.*?) \| .* \| (.*?) \|$", document.split("## Targets")[1].split("\n## ")[0], re.MULTILINE)
    described = {
        name: set(re.findall("`([^`]+)`", cell)) for names, cell in rows for name in re.findall("`([^`]+)`", names)}
    assert described == targets()
