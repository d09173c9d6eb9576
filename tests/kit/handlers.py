"""What clients are asked for in the tests of engines; at module level, where workers find it."""

import os
import signal
import time

import numpy as np
from threadpoolctl import threadpool_info


def count(site, message):
    """How often this site has been asked: a restarted one starts again."""
    site.memory["count"] = site.memory.get("count", 0) + 1
    return {"count": np.array(site.memory["count"]), "pid": np.array(os.getpid())}


def hang(site, message):
    """South never answers."""
    if site.name == "south":
        print("south hangs", flush=True)
        time.sleep(10_000)
    return {}


def die(site, message):
    """South takes its process down."""
    if site.name == "south":
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def threads(site, message):
    """The threads of every BLAS that is loaded."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {"threads": np.array(pools)}


HANDLERS = {"count": count, "hang": hang, "die": die, "threads": threads}
