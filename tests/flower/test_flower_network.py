"""A network over real SuperNodes, where PyTorch is installed beside Flower."""

import pytest

from kit.real_flower import PAIR, Faulty, last_run

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

NETWORK = {
    "target": "disease",
    "module": "mlp:4",
    "radius": 0.1,
    "order": "inf",
    "max_rounds": 4,
    "step_size": 0.3,
    "batch_size": 16,
    "seed": 3,
}


def test_supernodes_train_a_network_to_the_bits_of_the_files(tmp_path):
    made = Faulty(tmp_path, NETWORK)
    try:
        made.start()
        made.run()
        result, here = made.end(), made.undisturbed()
        assert result["models"] == here["models"]
        model = last_run(made) / "model.json"
        assert model.read_bytes() == (tmp_path / "HERE" / "model.json").read_bytes()
        for name in PAIR:
            (kinds,) = made.answered(name).values()
            assert "fedavg/reply" in kinds
            assert "failure" not in kinds
    finally:
        made.close()
