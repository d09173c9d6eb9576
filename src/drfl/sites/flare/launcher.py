"""How a site of FLARE starts its process for a job: with the doors kept there, too."""

from __future__ import annotations

from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher

FLARES, OURS = "-m nvflare.private.fed.app.client.worker_process", "-m drfl.sites.flare.start job"


class JobLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """FLARE's launcher, but for the program that is started."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """The command line."""
        command: str = super().get_command(job_meta, fl_ctx)
        if command.count(FLARES) != 1:
            raise RuntimeError(
                "this version of FLARE starts jobs in another way: nothing is started"
            )
        return command.replace(FLARES, OURS)
