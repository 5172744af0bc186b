"""Store of the collectives benchmark: one connection for the work, one for the ranks' states."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from typing import Any

from ddpkit.distributed.check import RankEnv, connect_store, serves_store


class BenchStore:
    """Keys and values that all ranks share, served by rank 0 or by its torchrun.

    A read on the first connection may wait. The second connection stays free for `publish_state` and `poll`.
    """

    def __init__(self, env: RankEnv, seconds: float) -> None:
        import torch.distributed as dist

        torch_dist: Any = dist  # torch's stubs leave out the stores
        if env.world_size == 1:
            self.work = self._states = torch_dist.HashStore()
            return
        prefix = "ddpkit bench " + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.work = connect_store(env, serves_store(env), seconds, prefix)
        self._states = connect_store(env, False, seconds, prefix)

    def publish(self, key: str, value: object) -> None:
        """Set a value for the work."""
        self.work.set(key, json.dumps(value))

    def wait_for(self, keys: list[str], seconds: float) -> dict[str, Any]:
        """Wait until all keys are set. Returns the values that were set in time."""
        with contextlib.suppress(RuntimeError):  # not in time; a lost store shows below
            self.work.wait(keys, datetime.timedelta(seconds=seconds))
        return {key: json.loads(self.work.get(key)) for key in keys if self.work.check([key])}

    def wait_for_ranks(self, topic: str, ranks: list[int], seconds: float) -> dict[int, Any]:
        """Wait for `TOPIC RANK` of these ranks. Returns the values that were set in time, by rank."""
        values = self.wait_for([f"{topic} {rank}" for rank in ranks], seconds)
        return {rank: values[f"{topic} {rank}"] for rank in ranks if f"{topic} {rank}" in values}

    def publish_state(self, key: str, value: object) -> None:
        """Set a value while the work may wait."""
        self._states.set(key, json.dumps(value))

    def has_state(self, key: str) -> bool:
        """Return whether a key is set, while the work may wait."""
        return bool(self._states.check([key]))

    def poll(self, keys: list[str], seconds: float) -> dict[str, Any]:
        """Return the values that are set in time, while the work may wait."""
        values: dict[str, Any] = {}
        deadline = time.monotonic() + seconds
        while True:
            for key in keys:
                if key not in values and self._states.check([key]):
                    values[key] = json.loads(self._states.get(key))
            if len(values) == len(keys) or time.monotonic() > deadline:
                return values
            time.sleep(0.05)
