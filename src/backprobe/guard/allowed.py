"""Names at which NaN and Inf are allowed."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.findings.report import Finding, Report
from backprobe.record.options import check_texts
from backprobe.record.patterns import compile_pattern

CONSEQUENCES = ("propagated", "healed")
"""Kinds of findings that are consequences of others."""


def beginnings(report: Report) -> list[Finding]:
    """The findings that are not consequences of others."""
    return [finding for finding in report.findings if finding.kind not in CONSEQUENCES]


class Allowed:
    """Patterns of names at which NaN and Inf are allowed. Raises BadOption and BadName."""

    def __init__(self, patterns: str | Sequence[str]) -> None:
        check_texts("allow", patterns, "'decoder:logits'")
        texts = [patterns] if isinstance(patterns, str) else list(patterns)
        self.patterns = [
            compile_pattern(text, in_function=in_function) for text in texts for in_function in (False, True)
        ]

    def has(self, name: str) -> bool:
        """Does a pattern match this name?"""
        return any(pattern.matches(name) for pattern in self.patterns)

    def has_all(self, report: Report, path: str) -> bool:
        """Is NaN or Inf allowed at each place where it begins?

        ``path`` is the path of the module in which the names of the report were recorded.
        """
        begun = beginnings(report)
        return bool(self.patterns and begun) and all(self._has(finding, path) for finding in begun)

    def _has(self, finding: Finding, path: str) -> bool:
        name = finding.name
        within = f"{path}{name if name.startswith(':') else f'.{name}'}" if path else name
        return self.has(name) or self.has(within) or (":" not in name and self.has(f"{path}:{name}"))
