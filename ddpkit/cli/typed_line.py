"""A command line while it is read: what is done, what is left, and the same line with a correction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ddpkit.cli import slurm_flags, torchrun_flags
from ddpkit.cli.hints import command_line
from ddpkit.cli.request import Request

Flags = Mapping[str, bool]  # the options of a command, and whether each takes a value


class TypedLine:
    """The words of one command. `script` is everything after `--`, or None without `--`."""

    def __init__(self, words: Sequence[str], script: Sequence[str] | None, commands: Mapping[str, Flags]) -> None:
        command, *self.rest = words
        self.all = list(words)
        self.commands = commands
        self.options = commands[command]
        self.request = Request(command, [command], None if script is None else list(script))
        self.torchrun: dict[str, str] = {}  # its flags, with their values
        self.at = 1  # the index of the word that is read

    @property
    def tail(self) -> list[str]:
        """The script, with `--` before it; empty: none yet."""
        return [] if self.request.script is None else ["--", *self.request.script]

    def is_script(self, word: str) -> bool:
        """Tell whether a word is no host: hosts have no slash, and no name of a Python file."""
        named = self.torchrun.keys() & {"--module", "--no-python"}
        return bool(named and self.request.script is None) or word.endswith(".py") or "/" in word

    def following(self, value: str) -> list[str]:
        """The next word, if it can be the value of an option that has none in its own word."""
        return [] if value or not self.rest or self.rest[0].startswith("-") else self.rest[:1]

    def options_left(self) -> Iterator[tuple[int, int, str, str]]:
        """Yield each option from here to the script: its index, its number of words, its name and its value."""
        at = self.at
        while at < len(self.all):
            word, following = self.all[at], (*self.all[at + 1 : at + 2], "-")[0]
            name, equals, value = split_option(word)
            length = 1
            if word.startswith("-") and word != "-":
                if not equals and not following.startswith("-") and self.takes_value(name, following):
                    length, value = 2, following
                yield at, length, name, value
            elif self.is_script(word):
                return
            at += length

    def takes_value(self, name: str, following: str = "") -> bool:
        """Tell whether an option has a value in the next word."""
        key = slurm_flags.LETTERS.get(name, name).removeprefix("--").replace("-", "_")
        if name in self.options:
            return self.options[name]
        if key in self.request.options:
            return not self.request.options[key].alone
        alone = name in slurm_flags.PASSED_FLAGS or name in torchrun_flags.FLAGS
        return not (alone or slurm_flags.is_alone(name) or self.is_script(following))

    # ---- the whole command line, corrected

    def corrected(self, at: int, length: int, words: Sequence[str]) -> str:
        """With other words in the place of some."""
        return command_line([*self.all[:at], *words, *self.all[at + length :], *self.tail])

    def with_backend(self, *words: str) -> str:
        """With another backend, and its hosts."""
        left = self.all[1:]
        at = next((at for at, word in enumerate(left) if word in ("-b", "--backend")), len(left))
        return command_line([self.all[0], "-b", *words, *left[:at], *left[at + 2 :], *self.tail])

    def with_script(self, words: Sequence[str], nested: object) -> str:
        """With these words as the script, or the script that a launcher among them starts."""
        from ddpkit.launchers.nested import Nested, plain_script

        request = self.request
        head, script = list(request.words), plain_script(words)
        if isinstance(nested, Nested):
            if nested.hint:
                return nested.hint
            script = nested.script or ("train.py" if Path("train.py").is_file() else "SCRIPT",)
            known = nested.count and (nested.per_node or request.transport.local)
            if known and not request.given.keys() & {"-n", "--nproc-per-node"}:
                head += ["-n", nested.count]
        return command_line([*head, "--", *script])

    def in_own_words(self, own: Mapping[str, str]) -> str:
        """With ddpkit's names for all these options at once."""
        words = list(self.all)
        for at, _, name, _ in reversed(list(self.options_left())):
            if name in own:
                value = split_option(words[at])[2]
                flag = own[name]
                words[at : at + 1] = [flag, value] if value and flag[:2] != "--" else [with_value(flag, value)]
        return self.corrected(0, len(self.all), words)

    def for_program(self, program: str, known: frozenset[str]) -> str:
        """With all options of sbatch or srun as the backend's option of this name."""
        from ddpkit.launchers.shell import join

        words, given = list(self.all), list[str]()
        for at, length, name, value in reversed(list(self.options_left())):
            if name in known:
                given.insert(0, f"{name}={value}" if value else name)
                words[at : at + length] = []
        typed = [at for at, word in enumerate(words) if word.startswith(f"{program}=") and words[at - 1] == "-o"]
        before = str(self.request.settings.options.get(program, ""))
        if typed:
            before = words[typed[-1]].partition("=")[2]
            words[typed[-1] - 1 : typed[-1] + 1] = []
        at = min(self.at, len(words)) - 2 * bool(typed and typed[-1] < self.at)
        words[at:at] = ["-o", f"{program}={f'{before} {join(given)}'.strip()}"]
        return self.corrected(0, len(self.all), words)


def split_option(word: str) -> tuple[str, str, str]:
    """An option, and its value if that is in the same word: `--name=value`, `-nvalue`."""
    if not word.startswith("--"):
        return word[:2], word[2:], word[2:]
    name, equals, value = word.partition("=")
    return name.replace("_", "-"), equals, value


def with_value(option: str, value: str) -> str:
    """An option, with the value that was in the same word as the mistyped one."""
    return f"{option}={value}" if value and option.startswith("--") else option + value
