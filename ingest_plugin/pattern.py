"""Topics by pattern: which names a section `[patterns.NAME]` takes in, and the settings that each gets by it.

Internal topics, whose names begin with an underscore, are taken in by no pattern: they are listed by name or not read.
"""

import fnmatch
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ingest_plugin.keys import ConfigError, topic_keys
from ingest_plugin.topic_section import topic_of
from ingest_plugin.topic_settings import Section, TopicSettings

INTERNAL = "_"
"""What names of internal topics begin with: Kafka's own, a registry's, and those of tools."""
_OWN_KEYS = ("regex", "glob", "exclude")
_TEMPLATES = ("table", "errors.deadletter.topic")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def is_internal(topic: str) -> bool:
    """Whether a topic is read only when somebody names it."""
    return topic.startswith(INTERNAL)


class Pattern(Section):
    """One pattern; the regular expressions match whole names."""

    name: str
    regex: str
    excluded: tuple[str, ...] = ()
    keys: dict[str, Any]
    defaults: dict[str, Any]

    def matches(self, topic: str) -> bool:
        """Whether it takes this topic in."""
        return (
            not is_internal(topic)
            and _compiled(self.regex).fullmatch(topic) is not None
            and not any(_compiled(each).fullmatch(topic) for each in self.excluded)
        )

    def settings(self, topic: str, own: Mapping[str, object] | None = None) -> TopicSettings:
        """What a topic that matches is told; `own` are keys of its own, which win.

        Raises:
            ConfigError: the keys, with this name put in, are not those of a topic.
        """
        found = _compiled(self.regex).fullmatch(topic)

        def part(placeholder: str) -> str:
            if placeholder == "topic" or found is None:
                return topic
            return found[int(placeholder) if placeholder.isdigit() else placeholder] or ""

        section = f"patterns.{self.name}"
        told = topic_keys(section, self._filled(section, part))
        return topic_of(section, topic, {**told, **topic_keys(section, own or {})}, self.defaults)

    def _filled(self, section: str, part: Callable[[str], str]) -> dict[str, Any]:
        """The keys with names put in for the placeholders, as `part` gives them."""
        keys = dict(self.keys)
        replacement = keys.get("table.dot.replacement", self.defaults.get("table.dot.replacement", "."))

        def filled(template: str, key: str) -> str:
            def put(match: re.Match[str]) -> str:
                text = part(match[1])
                return text.replace(".", str(replacement)) if key == "table" else text

            text = _PLACEHOLDER.sub(put, template)
            if not text:
                raise ConfigError(f"[{section}]: '{key}' = {template!r} gives no name")
            return text

        for key in _TEMPLATES:
            if isinstance(template := keys.get(key), str):
                keys[key] = filled(template, key)
        if (levels := keys.get("namespace")) is not None:
            # Dots of a topic's name make no levels: those are the template's.
            parts = levels.split(".") if isinstance(levels, str) else levels
            if isinstance(parts, list) and all(isinstance(level, str) and level for level in parts):
                keys["namespace"] = [filled(level, "namespace") for level in parts]
        return keys


def pattern_of(name: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Pattern:
    """A section `[patterns.NAME]` read; `defaults` are offered keys of topics.

    Raises:
        ConfigError: one line on what is wrong, where, and what to write.
    """
    section = f"patterns.{name}"
    if ("regex" in given) == ("glob" in given):
        raise ConfigError(f"[{section}]: give 'regex' or 'glob', which names of topics are to match")
    globs = "glob" in given
    excluded = given.get("exclude", [])
    expressions = [given["glob" if globs else "regex"]]
    expressions += [excluded] if isinstance(excluded, str) else list(excluded)
    pattern = Pattern(
        name=name,
        regex=_expression(section, expressions[0], glob=globs),
        excluded=tuple(_expression(section, each, glob=globs) for each in expressions[1:]),
        keys={key: value for key, value in given.items() if key not in _OWN_KEYS},
        defaults=dict(defaults),
    )
    _check_placeholders(section, pattern)
    return pattern


def _expression(section: str, text: object, *, glob: bool) -> str:
    if not isinstance(text, str) or not text:
        raise ConfigError(f"[{section}]: {text!r} is no pattern: write text")
    if glob:
        return fnmatch.translate(text)
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"[{section}]: {text!r} is not a regular expression: {error}") from None
    return text


def _check_placeholders(section: str, pattern: Pattern) -> None:
    expression = _compiled(pattern.regex)
    known = {"topic", *expression.groupindex, *map(str, range(1, expression.groups + 1))}
    for key in (*_TEMPLATES, "namespace"):
        value = pattern.keys.get(key, "")
        for template in value if isinstance(value, list) else [value]:
            for found in _PLACEHOLDER.findall(str(template)):
                if found not in known:
                    offered = ", ".join(f"{{{each}}}" for each in sorted(known))
                    raise ConfigError(f"[{section}]: '{key}' has {{{found}}}, but there is only {offered}")


@lru_cache(maxsize=1024)
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text)
