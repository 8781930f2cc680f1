"""Which members two documents give to the same body: walked side by side, told by upstream's model."""

from collections.abc import Iterator
from typing import Any

from tests.contract.upstream import Document, resolve

Schema = dict[str, Any]


class Side:
    """One document's schemas."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def plain(self, schema: Schema) -> Schema:
        """The schema with its references followed, its `allOf` merged, and a union of one opened."""
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**resolve(self._document, schema), **beside}
        if len(schema.get("oneOf", [])) == 1:
            return self.plain(schema["oneOf"][0])
        if "allOf" not in schema:
            return schema
        merged: Schema = {"properties": {}, "required": []}
        for part in [*schema["allOf"], {key: value for key, value in schema.items() if key != "allOf"}]:
            found = self.plain(part)
            merged["properties"] |= found.get("properties", {})
            merged["required"] += found.get("required", [])
            merged |= {key: value for key, value in found.items() if key not in merged}
        return merged

    def branches(self, schema: Schema) -> dict[str, Schema]:
        """The alternatives of a union, by the word that tells them apart; without such words, nothing."""
        if mapping := schema.get("discriminator", {}).get("mapping"):
            return {word: {"$ref": target} for word, target in mapping.items()}
        found = {}
        for branch in schema.get("oneOf", schema.get("anyOf", [])):
            plain = self.plain(branch)
            for member in ("action", "type", "content", "status", "grant_type"):
                marker = self.plain(plain.get("properties", {}).get(member, {}))
                for word in [marker["const"]] if "const" in marker else marker.get("enum", []):
                    found[f"{word} again" if word in found else word] = branch
            found |= self.branches(plain) if not plain.get("properties") else {}
        return found


def differences(
    theirs: Side, ours: Side, their_schema: Schema, our_schema: Schema
) -> Iterator[tuple[str, str]]:
    """Every member of one side only, or needed by one side only: (`Model.member`, what is different)."""
    seen: set[tuple[str, str]] = set()
    waiting = [("?", their_schema, our_schema)]
    while waiting:
        name, their_one, our_one = waiting.pop()
        name = their_one["$ref"].rpartition("/")[2] if "$ref" in their_one else name
        key = (name, our_one.get("$ref", name) if "$ref" in our_one else name)
        if "$ref" in their_one and key in seen:
            continue
        seen.add(key)
        their_plain, our_plain = theirs.plain(their_one), ours.plain(our_one)
        yield from _of_one(name, their_plain, our_plain)
        waiting += _inside(name, theirs, ours, their_plain, our_plain)


def _of_one(name: str, theirs: Schema, ours: Schema) -> Iterator[tuple[str, str]]:
    their_members, our_members = theirs.get("properties", {}), ours.get("properties", {})
    if not their_members and not our_members:
        return
    for member in sorted(their_members.keys() | our_members.keys()):
        needed_there, needed_here = member in theirs.get("required", []), member in ours.get("required", [])
        if member not in our_members:
            yield f"{name}.{member}", "needed there, unknown here" if needed_there else "unknown here"
        elif member not in their_members:
            yield f"{name}.{member}", "needed here, unknown there" if needed_here else "unknown there"
        elif needed_there != needed_here:
            yield f"{name}.{member}", "needed there only" if needed_there else "needed here only"


def _inside(
    name: str, theirs: Side, ours: Side, their_plain: Schema, our_plain: Schema
) -> Iterator[tuple[str, Schema, Schema]]:
    for member, schema in their_plain.get("properties", {}).items():
        if member in our_plain.get("properties", {}):
            yield f"{name}.{member}", _some(schema), _some(our_plain["properties"][member])
    for place in ("items", "additionalProperties"):
        if isinstance(their_plain.get(place), dict) and isinstance(our_plain.get(place), dict):
            yield f"{name}[]", _some(their_plain[place]), _some(our_plain[place])
    their_branches, our_branches = theirs.branches(their_plain), ours.branches(our_plain)
    for word in their_branches.keys() & our_branches.keys():
        yield f"{name}:{word}", their_branches[word], our_branches[word]


def _some(schema: Schema) -> Schema:
    """The schema without null as an alternative."""
    choices = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema
