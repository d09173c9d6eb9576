"""Tasks on all cores: processes that are started afresh, with one BLAS thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from drfl.engines.blas import one_blas_thread, one_blas_thread_in_children
from experiments.records import Done, Task
from experiments.settings import Settings


def run_tasks(name: str, settings: Settings, tasks: Sequence[Task], jobs: int) -> Iterator[Done]:
    """Run the tasks of an experiment; finished ones come in any order.

    Parameters
    ----------
    name : str
        Of the experiment, by which a process finds it.
    settings : Settings
        Its settings.
    tasks : sequence of dict
        What there is to do.
    jobs : int
        How many processes; 1: this one.
    """
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield work(name, settings, task)
        return
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    workers = min(jobs, len(tasks))
    with one_blas_thread_in_children(), ProcessPoolExecutor(workers, context, _prepare) as pool:
        try:
            futures: list[Future[Done]] = [pool.submit(work, name, settings, t) for t in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise RuntimeError(
                "a worker process ended before its task, perhaps for want of memory: run it again "
                "to go on, with fewer --jobs"
            ) from None
        except BaseException:
            # What is under way is lost; nobody should wait for it.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise


def work(name: str, settings: Settings, task: Task) -> Done:
    """Run one task, in whatever process."""
    from experiments.registry import find

    start, busy = time.perf_counter(), time.process_time()
    with one_blas_thread():
        rows = find(name).run(settings, task)
    return Done(task, rows, time.perf_counter() - start, time.process_time() - busy)


def _prepare() -> None:
    """Leave interrupts to the parent, and go when it has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
