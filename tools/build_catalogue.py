"""Hook of the build: a wheel holds the catalogue as one file, with its index, in place of its TOML."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CatalogueHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """Builds the file, unless the wheel is a link to a clone, which builds its own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from ddpkit.diagnosis.catalogue import built

        self.folder = TemporaryDirectory()
        made = Path(self.folder.name) / built.NAME
        made.write_bytes(built.encode(built.build(built.source_files(), built.other_files())))
        build_data["force_include"][str(made)] = f"ddpkit/diagnosis/catalogue/{built.NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.folder.cleanup()
