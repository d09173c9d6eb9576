"""A run that crashed, or was killed, goes on where it stopped and ends as if nothing had been."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from native_kit import Listening, run
from test_native_runs import same, small

from drfl.native import METHODS, FedADMM, Scaffold

ROUNDS = 16


class CrashError(RuntimeError):
    pass


def crash_in(round):
    def callback(record):
        if record.round == round:
            raise CrashError

    return callback


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.sampled(2)
def test_a_run_goes_on_from_its_checkpoint(name, tmp_path):
    whole = run(small(name), max_rounds=ROUNDS)
    for crash in (1, 9):
        log, asked = tmp_path / f"{crash}", Listening()
        with pytest.raises(CrashError):
            run(small(name), max_rounds=ROUNDS, checkpoint=log, callbacks=[crash_in(crash)])
        resumed = run(small(name), max_rounds=ROUNDS, checkpoint=log, engine=asked)
        same(whole, resumed)
        # The rest, and an empty recall: clients have nothing to remember.
        assert [bool(messages) for messages, _ in asked.rounds] == [False] + [True] * (
            ROUNDS - crash
        )


@pytest.mark.parametrize("method", [Scaffold(), FedADMM()])
def test_more_rounds_may_be_added_later(method, tmp_path):
    run(method, max_rounds=9, checkpoint=tmp_path / "log")
    same(
        run(method, max_rounds=ROUNDS),
        run(method, max_rounds=ROUNDS, checkpoint=tmp_path / "log"),
    )


def test_a_killed_process_loses_nothing(tmp_path):
    here = Path(__file__).parent
    program = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path.insert(0, {str(here)!r})
        from native_kit import run
        from test_native_runs import small

        def kill(record):
            if record.round == 7:
                os.kill(os.getpid(), signal.SIGKILL)

        run(small("fedadmm"), max_rounds={ROUNDS}, checkpoint="log", callbacks=[kill])
        """
    )
    killed = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env={**os.environ})
    assert killed.returncode == -signal.SIGKILL
    resumed = run(small("fedadmm"), max_rounds=ROUNDS, checkpoint=tmp_path / "log")
    same(run(small("fedadmm"), max_rounds=ROUNDS), resumed)
