"""The table of targets in docs/architecture.md is what the manifest says."""

import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def targets():
    """The targets below Sources, each with the targets and the packages that it depends on; without the libraries' module maps."""
    manifest = (REPOSITORY / "Package.swift").read_text()
    shared = dict(re.findall(r'^let (\w+) = Target\.Dependency\.product\(.*?package: "([^"]+)"\)', manifest, re.MULTILINE))
    # What stands behind is for the builds of a part.
    manifest = manifest.split("\nif let ")[0]
    found = {}
    for text in re.split(r"\.(?:executableTarget|target|testTarget|systemLibrary)\(", manifest)[1:]:
        name = re.match(r'\s*name: "([^"]+)"', text)
        if not name or 'path: "Tests' in text or name[1].endswith(("System", "Tests")):
            continue
        listed = re.search(r"dependencies: \[(.*?)\](?=,|\))", text, re.DOTALL)
        listed = listed[1] if listed else ""
        packages = re.findall(r'package: "([^"]+)"', listed)
        own = re.sub(r"\.product\([^)]*\)", "", listed)
        packages += [package for word, package in shared.items() if re.search(rf"\b{word}\b", own)]
        found[name[1]] = {need for need in re.findall(r'"([^"]+)"', own) if not need.endswith("System")}, set(packages)
    return found


def described():
    """The same by the table."""
    document = (REPOSITORY / "docs" / "architecture.md").read_text().split("## Targets")[1].split("\n## ")[0]
    found = {}
    for names, cell in re.findall(r"^\| (`.*?) \| .+? \| *(.*?) *\|$", document, re.MULTILINE):
        needs = set(re.findall("`([^`]+)`", cell))
        others = {word.strip() for word in re.sub("`[^`]+`|.*module map.*", "", cell).split(",")} - {""}
        for name in re.findall("`([^`]+)`", names):
            assert name not in found, f"{name} stands twice"
            found[name] = needs, others
    return found


def test_the_table_of_targets_is_the_manifests():
    """Regression: the table lacked targets, and said that others depend on nothing."""
    manifest, table = targets(), described()
    assert {"CLinux", "TransferModel", "UploadEngine", "uploadfs-mount", "UploadSimulation"} <= set(manifest), "the pattern no longer fits the manifest"
    assert sorted(table) == sorted(manifest)
    wrong = {name: (table[name], manifest[name]) for name in manifest if table[name] != manifest[name]}
    assert not wrong, "what the table says, and what the manifest says"


def test_every_folder_of_sources_is_a_target():
    folders = {path.name for path in (REPOSITORY / "Sources").iterdir() if path.is_dir() and not path.name.endswith("System")}
    assert folders == set(targets())
