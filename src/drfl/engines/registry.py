"""Engines by name."""

from __future__ import annotations

from drfl._registry import lookup
from drfl.engines.base import Engine
from drfl.engines.processes import ProcessesEngine
from drfl.engines.serial import SerialEngine

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (SerialEngine, ProcessesEngine)
}


def make_engine(engine: str | Engine) -> Engine:
    """Turn a name into an engine; an Engine passes through."""
    return engine if isinstance(engine, Engine) else lookup("engine", engine, ENGINES)()
