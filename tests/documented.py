"""What README and the pages show: blocks of code by language, and the commands in them.

A command is every line of a shell block, and every line of another that begins with `$ `. What a block without a
language holds is taken for commands too, unless it is a property (`key.of.something=value`).
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_SHELLS = ("", "sh", "bash", "shell")
_PROPERTY = re.compile(r"[a-z][\w.-]*=")


@dataclass(frozen=True)
class Command:
    """A command as it is shown, comments and prompt left out."""

    page: str
    words: tuple[str, ...]
    """Without quotes."""

    @property
    def text(self) -> str:
        """The words in one line."""
        return " ".join(self.words)


def blocks(page: Path, *languages: str) -> list[str]:
    """The blocks of code of these languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


def commands() -> list[Command]:
    """Every command shown, page by page from the top."""
    found = []
    for page in PAGES:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            lines = text.splitlines()
            if any(line.startswith("$ ") for line in lines):
                lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            elif language not in _SHELLS:
                continue
            found += [Command(page.name, words) for words in _joined(lines)]
    return found


def _joined(lines: list[str]) -> list[tuple[str, ...]]:
    """Whole commands: a quote that is open at the end of a line goes on in the next one."""
    whole: list[tuple[str, ...]] = []
    held = ""
    for line in lines:
        held = f"{held}\n{line}" if held else line
        try:
            words = shlex.split(held, comments=True)
        except ValueError:
            continue
        if words and not _PROPERTY.match(words[0]):
            whole.append(tuple(words))
        held = ""
    assert not held, f"a quote is not closed: {held}"
    return whole
