"""How messages reach the clients; every engine gives the same numbers."""

from drfl.engines.base import Answers, Engine, require_known
from drfl.engines.processes import ProcessesEngine
from drfl.engines.registry import ENGINES, make_engine
from drfl.engines.serial import SerialEngine

__all__ = [
    "ENGINES",
    "Answers",
    "Engine",
    "ProcessesEngine",
    "SerialEngine",
    "make_engine",
    "require_known",
]
