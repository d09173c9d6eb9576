"""How messages reach the clients; every engine gives the same numbers."""

from drfl._registry import lookup
from drfl.engines.base import Answers, Engine, SerialEngine, require_known
from drfl.engines.processes import ProcessesEngine

__all__ = [
    "ENGINES",
    "Answers",
    "Engine",
    "ProcessesEngine",
    "SerialEngine",
    "make_engine",
    "require_known",
]

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (SerialEngine, ProcessesEngine)
}


def make_engine(engine: str | Engine) -> Engine:
    """Turn a name into an engine; an Engine passes through."""
    return engine if isinstance(engine, Engine) else lookup("engine", engine, ENGINES)()
