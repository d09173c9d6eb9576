"""A server and sites as real processes on this machine."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil

from drfl.datasets import load_heart, partition
from drfl.sites.flare.handshake import EntryError, shake_hands
from drfl.sites.flare.start import MODULES
from drfl.sites.os_processes import wait_until
from drfl.sites.setup.certificates import ORG
from drfl.sites.setup.project import read_project
from drfl.sites.setup.provision import ProjectFolder
from drfl.training.settings import toml_value
from kit.ports import free_port

PATIENTS = "age,bmi,disease\n" + "\n".join(
    f"{40 + 3 * k % 37},{20 + 7 * k % 13},{'yes' if k % 3 else 'no'}" for k in range(30)
)


def hospitals(names=("north", "south", "west"), columns=6):
    """The bundled heart data as CSV texts, divided at random."""
    heart = load_heart(scaled=False)
    rng = np.random.default_rng(0)
    found = {}
    for name, rows in zip(names, partition.random(len(heart.target), len(names), rng), strict=True):
        lines = [",".join([*heart.feature_names[-columns:], "disease"])]
        for row, label in zip(heart.data[rows, -columns:], heart.target[rows], strict=True):
            lines.append(",".join([*(f"{v:g}" for v in row), "yes" if label > 0 else "no"]))
        found[name] = "\n".join(lines) + "\n"
    return found


def write_project(folder, sites, *, training=None, **settings):
    """A settings file sites.toml; what it states is returned as a layout, not yet written."""
    settings = {"project": "trial", "port": free_port(), "sites": list(sites), **settings}
    lines = [f"{name} = {toml_value(value)}" for name, value in settings.items()]
    lines += ["", "[training]"]
    values = {"target": "disease", "validation": False, **(training or {})}
    lines += [f"{name} = {toml_value(value)}" for name, value in values.items()]
    path = folder / "sites.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ProjectFolder(read_project(path))


class Program:
    """`drfl sites ...` in the background, and what it says."""

    def __init__(self, *arguments, cwd, terminal=None, **environment):
        self.said = Path(cwd) / f"said-{time.monotonic_ns()}.txt"
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "drfl", "sites", *map(str, arguments)],
                cwd=cwd,
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=out if terminal is None else terminal,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
            )

    @property
    def text(self):
        return self.said.read_text(encoding="utf-8")

    def until(self, words, seconds=60.0):
        """Wait until it has said this; the test fails if it ends before, or takes too long."""
        last = time.monotonic() + seconds
        while words not in self.text:
            assert self.process.poll() is None, self.text
            assert time.monotonic() < last, self.text
            time.sleep(0.1)
        return self

    def end(self, seconds=60.0):
        """Wait for it; its exit code."""
        return self.process.wait(seconds)

    def stop(self):
        """Ctrl-C, as a user would."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.end()


def drfl_sites(*arguments, cwd, code=0, seconds=120):
    """Run a command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "drfl", "sites", *map(str, arguments)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def flare_processes(folder):
    """Processes that work in a folder, ours or FLARE's."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(folder) in line and "pytest" not in line:
            found.append(process)
    return found


@contextmanager
def real_sites(folder, data, *, settings=None, environment=None, **project):
    """A server and sites; everything is ended and gone at the end.

    Parameters
    ----------
    folder : Path
        Where to work.
    data : dict of str to str or None
        The CSV text of every site; None: it has a kit, and nobody starts it.
    settings : dict of str to dict, optional
        The own settings of a site.
    environment : dict of str to dict, optional
        Further environment variables of a site.
    **project
        Settings of the project.
    """
    layout = write_project(folder, data, **project)
    layout.create(with_kits=True)
    started = Started(layout, folder, environment or {})
    try:
        started.serve()
        for name, text in data.items():
            if text is None:
                continue
            (folder / f"{name}.csv").write_text(text, encoding="utf-8")
            started.configure(name, **(settings or {}).get(name, {}))
            started.join(name)
        for program in started.sites.values():
            program.until("has joined")
        yield started
    finally:
        started.stop()
        left = flare_processes(folder)
        for process in left:
            process.kill()
        assert not left, [process.cmdline() for process in left]


class Started:
    """What runs."""

    def __init__(self, layout, folder, environment):
        self.layout, self.folder, self.environment = layout, folder, environment
        self.sites, self.options = {}, {}
        self.server = None

    def serve(self):
        self.server = Program("serve", cwd=self.folder)
        self.server.until("serving")

    def configure(self, name, **settings):
        """Write the own settings of a site."""
        kit = self.kit(name)
        kit.mkdir(exist_ok=True)
        self.options[name] = ["--without-guard"] if settings.get("guard") == 0 else []
        lines = [f"{key} = {toml_value(value)}" for key, value in settings.items()]
        (kit / "site.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def join(self, name):
        self.sites[name] = Program(
            "join",
            self.layout.kit(name),
            "--data",
            f"{name}.csv",
            *self.options.get(name, ()),
            cwd=self.folder,
            **self.environment.get(name, {}),
        )
        return self.sites[name]

    def kit(self, name):
        """The folder of a site's kit."""
        return self.layout.kit(name).with_suffix("")

    def ledger(self, name):
        """What has left a site."""
        lines = (self.kit(name) / "state" / "messages.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in lines.splitlines()]

    def stop(self):
        for program in [*self.sites.values(), self.server]:
            if program is not None:
                program.stop()


OUR_LAUNCHER = "drfl.sites.flare.launcher.JobLauncher"
FLARES_LAUNCHER = "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher"


@contextmanager
def flare_site(kit, name, **environment):
    """FLARE's own client on a kit, without drfl's checks; its log."""
    kit.harden()
    resources = kit.flare / "local" / "resources.json"
    resources.write_text(resources.read_text().replace(OUR_LAUNCHER, FLARES_LAUNCHER))
    log = kit.flare / "log.txt"
    log.write_text("")
    with flare(MODULES["site"], kit.flare, [f"uid={name}"], **environment):
        yield log


@contextmanager
def flare_server(layout, **environment):
    """FLARE's own server, without drfl's checks."""
    environment["DRFL_SITES_STATE"] = str(layout.checkpoints)
    with flare(MODULES["server"], layout.server, [], **environment):
        project = layout.project
        startup = layout.coordinator / "startup"

        def up():
            with suppress(EntryError):
                shake_hands(startup, project["host"], project["port"])
                return True

        assert wait_until(up, 60.0)
        yield


@contextmanager
def flare(module, folder, more, **environment):
    settings = ["secure_train=true", *more, f"org={ORG}", "config_folder=config"]
    process = subprocess.Popen(
        [sys.executable, "-m", module[0], "-m", folder, "-s", module[1], "--set", *settings],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    try:
        yield
    finally:
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()
