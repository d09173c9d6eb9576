"""Probabilities judged at sites: what a client answers, and what is made of it."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from drfl.models import read_model
from drfl.models.file_rows import read_rows
from drfl.protocols.evaluation import answer, evaluate_message, probabilities
from drfl.wire import Message, WireError, decode, encode, reply_kind


class Sites:
    """Clients that answer out of files here, by wire."""

    def __init__(self, folder, model, names, change=None):
        self.names, self.change = names, change or {}
        self.rows = {n: read_rows(model, folder / f"{n}.csv", target=True) for n in names}
        self.model = model

    def ask(self, messages, *, partial=False):
        replies = {}
        for name, message in messages.items():
            arrays = answer(name, message, self.model, self.rows[name], None)
            reply = Message(reply_kind(message.kind), 0, {**arrays, **self.change})
            replies[name] = decode(encode(reply))
        return replies


@pytest.fixture(scope="module")
def model(trained):
    return read_model(trained / "RUN" / "model.json")


def test_sites_tell_what_their_rows_say(trained, model):
    sites = Sites(trained, model, ["a", "b"])
    found = probabilities(sites, model)
    assert list(found) == ["all clients", "a", "b"]
    for name in "ab":
        rows = sites.rows[name]
        z = model.scores(rows.X, rows.X)[:, 0]
        assert found[name]["auc"] == pytest.approx(roc_auc_score(rows.y, z))
        assert found[name]["rows"] == len(z)
    assert found["all clients"]["positive"] == found["a"]["positive"] + found["b"]["positive"]
    # No small cell: what is called positive at a threshold, and who is, is 0 or at least 5.
    reply = answer("a", evaluate_message(model, [0.0], 1, 0), model, sites.rows["a"], None)
    cells = reply["bins"][:, :2]
    assert ((cells == 0) | (cells >= 5)).all()
    assert not any(len(sites.rows["a"].y) in np.shape(array) for array in reply.values())


def test_counts_that_cannot_be_are_refused(trained, model):
    with pytest.raises(WireError, match="counts that are none"):
        probabilities(Sites(trained, model, ["a"], {"bins": np.full((20, 3), -1.0)}), model)
    with pytest.raises(WireError):
        probabilities(Sites(trained, model, ["a"], {"bins": np.zeros((3, 3))}), model)
