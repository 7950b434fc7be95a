"""The worker process: ``inorder worker``, with a bug if :data:`VARIABLE` names one."""

from __future__ import annotations

import os
import sys

VARIABLE = "CHAOS_PLANTED"

if __name__ == "__main__":
    name = os.environ.get(VARIABLE, "")
    if name:
        from tests.chaos.planted import plant_in_worker

        plant_in_worker(name)
    from inorder_cli.entry import main

    sys.argv[:1] = ["inorder"]
    main()
