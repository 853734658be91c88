"""An SBOM of what is installed with Redbike, and whether the licences in it are compatible with that of Redbike."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from tests.release.commands import Fault, run

# A program under MIT may be installed beside any of these. Whoever adds one has read it.
COMPATIBLE = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0"),
    *("PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    # Where a package names no SPDX identifier; each of the licences of this name would do.
    *("License :: OSI Approved :: BSD License", "License :: OSI Approved :: MIT License"),
}


def write_sbom(programs: Path, path: Path, epoch: int) -> dict[str, Any]:
    """Write the SBOM of an environment in the format of CycloneDX, without pip, and return it."""
    run(programs / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
    command = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-file", path)
    run(*command, programs / "python", env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})
    sbom: dict[str, Any] = json.loads(path.read_text())
    # It would name the folder in which the wheel was built.
    [redbike] = [each for each in sbom["components"] if each["name"] == "redbike"]
    redbike["externalReferences"] = []
    path.write_text(json.dumps(sbom, indent=2) + "\n")
    return sbom


def read_licence(component: dict[str, Any]) -> str:
    """Return the licence of a component: an SPDX expression where there is one."""
    found = [each.get("expression") or each["license"].get("id") for each in component.get("licenses", [])]
    names = [each["license"].get("name", "") for each in component.get("licenses", []) if "license" in each]
    return " AND ".join(filter(None, found)) or ", ".join(filter(None, names)) or "none"


def is_compatible(licence: str) -> bool:
    """Return whether each part of an SPDX expression is known; of parts with OR, one of them."""
    parts = [re.split(r"\s+OR\s+", part.strip(" ()")) for part in re.split(r"\s+AND\s+", licence)]
    return all(any(each.strip(" ()") in COMPATIBLE for each in part) for part in parts)


def list_licences(sbom: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, version and licence of each component. Raise `Fault` for a licence that is not known."""
    rows = sorted((each["name"], each["version"], read_licence(each)) for each in sbom["components"])
    for name, version, licence in rows:
        if not is_compatible(licence):
            raise Fault(f"{name} {version} has a licence that is not known to be compatible: {licence!r}")
    return rows
