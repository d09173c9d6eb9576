"""The app that `drfl flower init` writes: one file without code, the project's settings in it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from drfl.files import write_text
from drfl.sites.setup.project import PROJECT, Project, read_project
from drfl.training.settings import read_toml

SILENCE, LEAST = 120.0, 30.0
"""Seconds without a sign of life after which a site is gone: the default, and what is too few."""

APP = """\
# A Flower app without code: both halves are in the package drfl, which has to be installed (pip
# install 'drfl[flower]') wherever the app runs. Run it with `flwr run {folder}`.
[project]
name = "{name}"
version = "1.0.0"
description = "Distributionally robust training over the sites named below, with drfl"
license = "BSD-3-Clause"
dependencies = []

[tool.flwr.app]
publisher = "drfl"

[tool.flwr.app.components]
serverapp = "drfl.sites.flower.server:app"
clientapp = "drfl.sites.flower.client:app"

[tool.flwr.app.config]
kind = "train"     # or "check": is every site there, with the same columns?
resume = ""        # the number of a run that is continued
folder = "runs"    # where the server's half writes, from where the SuperLink was started
# Sites decide for themselves what they answer: nothing here can change that.
project = '''
{project}'''
"""


def read_app_project(text: str, path: Path) -> Project:
    """Read the settings in an app, what `drfl sites` calls a project; they are kept at the path."""
    write_text(path, text)
    project = read_project(path)
    if project["silence"] < LEAST:
        raise ValueError(
            f"silence = {project['silence']:g} is too short for Flower, which starts a process for "
            f"every message: give at least {LEAST:g}"
        )
    return project


def write_app(config: Path, folder: Path) -> Project:
    """Write the app of a project's file; ValueError says what is wrong with the project."""
    given = read_toml(config, "write one, see docs/flower.md")
    text = config.read_text(encoding="utf-8")
    if "'''" in text:
        raise ValueError(f"{config} holds ''': write the text in it another way")
    if "silence" not in given:
        text = f"silence = {SILENCE}  # {PROJECT['silence'].help}\n{text}"
    with TemporaryDirectory() as trial:
        project = read_app_project(text, Path(trial) / config.name)
    app = APP.format(folder=folder, name=project["project"], project=text)
    write_text(folder / "pyproject.toml", app)
    return project
