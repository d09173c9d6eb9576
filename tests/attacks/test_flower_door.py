"""An app of Flower's with code of its own knocks at the door of a site, and asks what it likes.

Flower ships the app, so whoever sends it writes both halves: what holds must hold behind the door.
No Flower is needed for that: the door is a process of drfl's.
"""

import json
from itertools import count

import numpy as np
import pytest

import drfl
from drfl.client import RemoteClient, intercept_message
from drfl.privacy import audit
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.federation import bind_message, binding_of
from drfl.sites.carrier import WORKING, Question
from drfl.sites.flower.asked import AddressedQuestion
from drfl.sites.flower.door import Door, site_folder
from drfl.sites.gate import open_gate
from drfl.sites.site_log import Refusals
from drfl.solvers.bundle.messages import CutRequest
from drfl.wire import Failure, Message, decode, encode
from kit.program import write_csv

PROBLEM = drfl.Problem("logistic", drfl.Ball(0.01))


@pytest.fixture
def knock(tmp_path):
    """Ask the door of a site with a guard and a list of targets; its folder beside it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)).round(6)
    ill = (X[:, 0] + rng.normal(size=200) > 0.0).astype(int)
    rows = [[*x, y] for x, y in zip(X.tolist(), ill.tolist(), strict=True)]
    write_csv(tmp_path / "a.csv", ["age", "dose", "ill"], rows)
    kit = site_folder(tmp_path / "north")
    kit.settings.write_text('data = "../a.csv"\nallow_targets = ["ill"]\n')
    door = Door("north", lambda: open_gate(kit.settings), Refusals(kit.state / "refused.jsonl"))
    numbers = count(1)

    def ask(message, seat=0):
        asked = AddressedQuestion(0, next(numbers), Question(seat, encode(message)), 50.0, "north")
        while (told := door.answer((7).to_bytes(8, "little") + asked.to_bytes())) == WORKING:
            pass
        return decode(told)

    ask.state = kit.state
    yield ask
    door.close()


def asked_for(target):
    return Message("preflight", 0, {"request": DataRequest(target).to_bytes()})


def test_whatever_an_app_asks_the_site_decides(knock):
    assert Failure.of(knock(asked_for("dose"))) is Failure.REFUSED  # not in its list
    found = preflight(DataRequest("ill"), ["a"], lambda m: {"a": knock(m["a"])})
    party = RemoteClient("a", found.features, "a", 0, binding_of(found, 1, folds=False))
    assert Failure.of(knock(bind_message(party, PROBLEM))) is None
    refused = {
        "inference": {"x": np.zeros(3), "outer": np.array(1)},
        "first_order": {"plan": np.ones(1, np.uint8)},
        intercept_message.KIND: {"w": np.zeros(2)},
        "private_start": {"rho": np.ones(2)},
    }
    for kind, arrays in refused.items():
        assert Failure.of(knock(Message(kind, 0, arrays))) is Failure.REFUSED, kind
    folds = RemoteClient("a", found.features, "a", 0, binding_of(found, 1, folds=True))
    assert Failure.of(knock(bind_message(folds, PROBLEM), seat=1)) is Failure.REFUSED
    wishes = {"groups": 3, "shares": True, "introduction": True, "local": True}
    told = knock(CutRequest(np.zeros((1, 3)), (0,), (True,), **wishes).message(0))
    assert set(told.arrays) == {"value", "cuts", "about", "guard"}
    assert "answers: 1 " in audit(knock.state / "guard.ledger")
    lines = (knock.state / "messages.jsonl").read_text("utf-8").splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.count("failure") == len(refused) + 2
    assert kinds[-1] == "bundle/reply"
