"""A command line that is being read: its words so far, and the backend that it names."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.launchers.registry import Option


@dataclass
class Request:
    """A command line in ddpkit's own words, as far as it was read."""

    command: str
    words: list[str]
    script: list[str] | None  # None: not named
    notes: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)  # ddpkit's own options
    typed_backend: str = ""
    profile: str | None = None

    @property
    def scripted(self) -> bool:
        """Tell whether the command takes a script."""
        return self.command == "launch"

    @cached_property
    def settings(self) -> LaunchSettings:
        """Settings of the environment and the files."""
        from ddpkit import config

        return config.collect_settings(config.current_folder(), os.environ, self.profile, {})

    def take_backend(self, name: str) -> None:
        """Take the name of a backend that was typed later than expected; empty: none was."""
        if name and not self.typed_backend:
            self.typed_backend = name
            for each in ("backend", "transport", "has_backend", "options"):
                self.__dict__.pop(each, None)

    @cached_property
    def backend(self) -> Any:
        from ddpkit.launchers import registry

        return registry.load(self.typed_backend or self.settings.backend)

    @cached_property
    def transport(self) -> Any:
        from ddpkit.transports.choose import transport_class

        return transport_class(self.backend)

    @cached_property
    def has_backend(self) -> bool:
        """Tell whether the backend is known; the error comes when the settings are complete."""
        try:
            return self.transport is not None
        except UsageError:
            return False

    @property
    def takes_hosts(self) -> bool:
        """Tell whether hosts can follow; also true of a backend that is not known."""
        return not self.has_backend or bool(self.transport.names_nodes)

    @cached_property
    def options(self) -> dict[str, Option]:
        """The options of the backend, by name."""
        from ddpkit.launchers import registry

        return {each.name: each for each in registry.options(self.backend)}

    def add_option(self, key: str, value: str) -> None:
        self.words += ["-o", f"{key}={value}"]

    def option(self, key: str) -> str:
        """The value of an option of the backend, given here or in a file; empty: not given."""
        typed = zip(self.words, self.words[1:], strict=False)
        values = [pair.partition("=") for word, pair in typed if word in ("-o", "--option")]
        given = [value for name, _, value in values if name == key]
        return given[-1] if given else str(self.settings.options.get(key, ""))

    def note(self, flag: str, text: str) -> None:
        self.notes.append(f"{flag}: {text}")
