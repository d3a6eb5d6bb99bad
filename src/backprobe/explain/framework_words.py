"""The words that remedies use for each framework."""

from __future__ import annotations

from typing import Any

from backprobe.backends.dialects import dialect_of


class FrameworkWords(dict[str, Any]):
    """The fields of a text. A missing field is looked up among the words of the framework."""

    def __init__(self, framework: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.words = dialect_of(framework).remedies

    def __missing__(self, word: str) -> str:
        return self.words[word].format_map(self)
