"""What every carrier promises (docs/adding-a-carrier.md), held against each one there is."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from drfl.protocols.federation import Remote
from drfl.sites.carrier import Question
from drfl.sites.engine import SitesEngine
from drfl.sites.gate import HELLO
from drfl.training.local_files import files_here
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from drfl.wire import Failure, Message, decode, encode
from kit.pages import ROOT, blocks

NAMES = ["north", "south"]
SILENCE = 6.0
VALUES = {
    "target": "stage",
    "radius": "0.05",
    "tol": "1e-3",
    "validation": False,
    "multiclass": "ovr",
}


def prepared(folder):
    """Two sites with rows of three classes; the paths of their settings."""
    rng = np.random.default_rng(0)
    found = {}
    for name in NAMES:
        home = folder / name
        home.mkdir()
        rows = [f"{a:.3f},{b:.3f},s{abs(a + b) // 1:.0f}" for a, b in rng.uniform(0, 1.4, (40, 2))]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,stage", *rows]) + "\n", "utf-8")
        kit = {"schema": 1, "name": name, "project": "p", "host": "localhost", "port": 1}
        (home / "kit.json").write_text(json.dumps(kit), "utf-8")
        found[name] = home / "site.toml"
        found[name].write_text(f'data = "../{name}.csv"\nguard = 0\ntime_limit = 20.0\n', "utf-8")
    return found


class Sockets:
    """The carrier of the page, with its sites in processes of their own."""

    def __init__(self, folder):
        (block,) = blocks(ROOT / "docs" / "adding-a-carrier.md", "python")
        page = folder / "page_carrier.py"
        page.write_text(block.text, "utf-8")
        code = {"__name__": "page"}
        exec(compile(block.text, str(page), "exec"), code)
        self.sites, ports = {}, {}
        for name, path in prepared(folder).items():
            command = [sys.executable, str(page), str(path)]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            site = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            self.sites[name], ports[name] = site, int(site.stdout.readline())
        self.carrier = code["SocketCarrier"](ports, b"secret", SILENCE)

    def child(self, name):
        family = psutil.Process(self.sites[name].pid).children(recursive=True)
        return next(child for child in family if "spawn_main" in " ".join(child.cmdline()))

    def cut(self, name):
        self.sites[name].kill()

    def close(self):
        for site in self.sites.values():
            site.kill()
            site.communicate()


class Flare:
    """The carrier over FLARE, by FLARE's own proxies and dispatch; real networks: the faults."""

    def __init__(self, folder):
        from nvflare.collab.api.app import ClientApp, ServerApp
        from nvflare.collab.api.proxy import Proxy

        from drfl.sites.flare import app as flare

        server, self.off, self.apps, proxies = ServerApp(flare.ServerApp("{}")), set(), {}, {}
        for name, path in prepared(folder).items():
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(flare.SETTINGS, str(path))
                app = ClientApp(flare.SiteApp())
            app.name, self.apps[name] = name, app
            told = app.get_collab_interface()
            proxies[name] = Proxy(server, name, name, self, told[""])
            part = Proxy(server, f"{name}.client", "", self, told["client"])
            proxies[name].add_child("client", part)
        self.carrier = flare.FlareCarrier(proxies, SILENCE, 600.0)

    def call_target(self, context, target_name, call_opt, func_name, *args, **kwargs):
        """The network between the two ends, as FLARE calls it."""
        from nvflare.collab import CollabCallError
        from nvflare.collab.runtime.defs import CallHeaderKey, CallReplyKey, ObjectCallKey
        from nvflare.collab.runtime.dispatch import _call_app_method
        from nvflare.fuel.f3.cellnet.utils import new_cell_message

        name = target_name.split(".")[0]
        if name in self.off:
            return CollabCallError(name, func_name, TimeoutError("gone"))
        headers = {
            CallHeaderKey.TARGET_NAME: target_name,
            CallHeaderKey.METHOD_NAME: func_name,
            CallHeaderKey.AUTHENTICATED_CALLER: "server",
        }
        message = new_cell_message(headers, {ObjectCallKey.KWARGS: kwargs})
        silent = SimpleNamespace(debug=str, info=str, error=str)
        return _call_app_method(message, self.apps[name], silent).payload[CallReplyKey.RESULT]

    def child(self, name):
        gate = self.apps[name].obj._gate
        return psutil.Process(gate.child._place.worker.process.pid)

    def cut(self, name):
        self.off.add(name)

    def close(self):
        for app in self.apps.values():
            app.obj.close()


CARRIERS = {"sockets": Sockets, "flare": Flare}


@pytest.fixture(scope="module", params=CARRIERS)
def there(request, tmp_path_factory):
    """A carrier and its two sites; the last test cuts one of them off."""
    made = CARRIERS[request.param](tmp_path_factory.mktemp(request.param))
    made.folder = tmp_path_factory.getbasetemp() / f"{request.param}0"
    yield made
    made.close()


def asked(there, message, deadline=30.0, names=NAMES, seat=0):
    data = message if isinstance(message, bytes) else encode(message)
    return there.carrier.carry({name: Question(seat, data) for name in names}, deadline)


def test_every_site_that_is_asked_has_an_outcome(there):
    for names in (NAMES, ["south"], []):
        outcomes = asked(there, Message(HELLO, 3), names=names)
        assert list(outcomes) == names
        for outcome in outcomes.values():
            assert (decode(outcome.answer).round, outcome.dead) == (3, False)
            assert outcome.seconds >= 0.0


@pytest.mark.parametrize("data", [b"", b"\x00", b"waiting!", bytes(range(256)) * 4000])
def test_bytes_arrive_as_they_are(there, data):
    for outcome in asked(there, data).values():
        assert Failure.of(decode(outcome.answer)) is Failure.BAD_REQUEST
    large = Message("nonsense", 11, {"x": np.frombuffer(data, np.uint8)})
    for outcome in asked(there, large).values():
        assert decode(outcome.answer).round == 11


def test_a_training_gives_the_bits_of_the_files(there, tmp_path):
    # Three classes: every site has three clients, told apart by their seats.
    settings = from_values(VALUES, dict.fromkeys(NAMES))
    federation = Remote(SitesEngine(there.carrier, NAMES), NAMES)
    train(settings, RunFolder(tmp_path / "there"), federation, Quiet(), fresh=True)
    folder = RunFolder(tmp_path / "here")
    settings = from_values(VALUES, {name: there.folder / f"{name}.csv" for name in NAMES})
    train(settings, folder, files_here(settings, folder), Quiet(), fresh=True)
    assert RunFolder(tmp_path / "there").model.read_bytes() == folder.model.read_bytes()


class Quiet:
    live = False

    def __getattr__(self, name):
        return lambda *told, **more: None


def test_a_late_answer_is_none_and_never_that_of_another_question(there):
    asked(there, Message("nonsense", 20))  # the first question starts what computes
    child = there.child("north")
    child.suspend()
    try:
        outcomes = asked(there, Message("nonsense", 21), deadline=1.0)
        late = outcomes["north"]
        assert not late.dead
        assert late.answer is None or Failure.of(decode(late.answer)) is Failure.DEADLINE
        assert decode(outcomes["south"].answer).round == 21
    finally:
        if child.is_running():
            child.resume()
    for outcome in asked(there, Message("nonsense", 22)).values():
        assert decode(outcome.answer).round == 22


def test_a_site_that_is_gone_is_dead_and_the_others_answer(there):
    there.cut("north")
    outcomes = asked(there, Message(HELLO, 5))
    assert (outcomes["north"].answer, outcomes["north"].dead) == (None, True)
    assert decode(outcomes["south"].answer).round == 5
