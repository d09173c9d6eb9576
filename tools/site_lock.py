"""``python tools/site_lock.py``: every package of a site with its hashes, and a bill of materials.

Reads what ``pip-compile --generate-hashes`` says about ``drfl[sites]`` from standard input and
writes ``requirements-site.txt`` and ``sbom-site.json`` into the folder where it is started; `make
lock` does all of it. What FLARE declares and no process of drfl's ever loads is left out.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HEADER = """\
# Every package of a site, with the hashes of all its files; written by `make lock`.
# At a site: pip install --no-deps --require-hashes -r requirements-site.txt
# then:      pip install --no-deps drfl
"""

LEFT_OUT = frozenset(
    {
        "aiohappyeyeballs",
        "aiohttp",
        "aiosignal",
        "annotated-types",
        "attrs",
        "blinker",
        "certifi",
        "charset-normalizer",
        "click",
        "docker",
        "flask",
        "flask-jwt-extended",
        "flask-sqlalchemy",
        "frozenlist",
        "gunicorn",
        "idna",
        "itsdangerous",
        "jinja2",
        "markupsafe",
        "multidict",
        "propcache",
        "pydantic",
        "pydantic-core",
        "pyhocon",
        "pyjwt",
        "pyparsing",
        "requests",
        "safetensors",
        "sqlalchemy",
        "typing-inspection",
        "urllib3",
        "werkzeug",
        "yarl",
    }
)
"""FLARE's dashboard, its containers, its web clients and formats that drfl does not use."""

PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def read(text: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes by name."""
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in text.splitlines():
        if package := PACKAGE.match(line):
            name = package[1].lower()
            found[name] = package[2], []
        for digest in HASH.findall(line):
            found[name][1].append(digest)
    bare = [name for name, (_, hashes) in found.items() if not hashes]
    if bare or not found:
        raise ValueError(f"without hashes: {bare}" if bare else "no package was named")
    return {name: it for name, it in found.items() if name not in LEFT_OUT}


def requirements(packages: dict[str, tuple[str, list[str]]]) -> str:
    """The file that pip checks every download against."""
    lines = [HEADER.rstrip()]
    for name, (version, hashes) in packages.items():
        ends = [f"    --hash=sha256:{digest}" for digest in hashes]
        lines.append(" \\\n".join([f"{name}=={version}", *ends]))
    return "\n".join(lines) + "\n"


def bill(packages: dict[str, tuple[str, list[str]]]) -> dict[str, Any]:
    """The same as a bill of materials in CycloneDX's form."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "drfl[sites]"}},
        "components": [
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in hashes],
            }
            for name, (version, hashes) in packages.items()
        ],
    }


def main() -> None:
    """Write both files."""
    packages = read(sys.stdin.read())
    Path("requirements-site.txt").write_text(requirements(packages), encoding="utf-8")
    Path("sbom-site.json").write_text(json.dumps(bill(packages), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
