"""The file described for others: its JSON Schema for editors, and the words of the reference page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longwatch.config import keys, model, plan_model
from longwatch.config.kinds import SIZE_PATTERN, SPAN_PATTERN
from longwatch.core.harness import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a table",
}
Schema = dict[str, Any]


def schema() -> Schema:
    """Return the JSON Schema of the file, with what each key does and its built-in."""
    return _schema_of(model.File, "longwatch.toml")


def plan_schema() -> Schema:
    """Return that of a plan file."""
    return _schema_of(plan_model.File, "A plan of longwatch batch")


def _schema_of(kind: type[keys.Table], title: str) -> Schema:
    cleaned = _cleaned(kind.model_json_schema())
    assert isinstance(cleaned, dict)
    return {"$schema": DIALECT, **cleaned, "title": title}


def _cleaned(value: object) -> object:
    """Leave out what says nothing to an editor, and join what is said of a key."""
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {
        key: _member(key, item)
        for key, item in value.items()
        if key not in ("title", "default") and key[:2] != "x-"
    }
    if "x-built-in" in value:
        kept["description"] = " ".join(
            (value["description"], value["x-why"], f"Built-in: {value['x-built-in']}.")
        ).replace("  ", " ")
    return kept


def _member(key: str, item: object) -> object:
    # Below `properties` the names are those of the file: one that is called title or default stays.
    if key in ("properties", "$defs") and isinstance(item, Mapping):
        return {name: _cleaned(each) for name, each in item.items()}
    return _cleaned(item)


def page(opening: str) -> str:
    """Return the reference page."""
    parts = [opening]
    definitions = model.File.model_json_schema()["$defs"]
    harness = definitions["Harness"]["properties"]
    parts.append("## `[harness.NAME]`")
    for group, title in keys.GROUPS.items():
        parts.append(f"### {title}")
        parts += [
            _section(key, told, definitions) for key, told in harness.items() if told.get("x-group") == group
        ]
    for name, kind in (
        ("[[harness.NAME.trigger]]", "Trigger"),
        ("[daemon]", "Daemon"),
        ("[notify]", "Notify"),
        ("[web]", "Web"),
    ):
        table = definitions[kind]
        parts += [f"## `{name}`", table["description"]]
        parts += [_section(key, told, definitions) for key, told in table["properties"].items()]
    return "\n\n".join(parts) + "\n"


def plan_page(opening: str) -> str:
    """Return the reference page of a plan file."""
    made = plan_model.File.model_json_schema()
    definitions, shared = made["$defs"], plan_model.Defaults.model_fields
    parts = [opening, "## Above the tables"]
    parts += [
        _section(key, made["properties"][key], definitions, made["properties"])
        for key in plan_model.Head.model_fields
    ]
    parts.append("## `[[item]]`")
    item = definitions["Item"]["properties"]
    for group, title in plan_model.GROUPS.items():
        parts.append(f"### {title}")
        parts += [
            _section(key, told, definitions, shared) for key, told in item.items() if told["x-group"] == group
        ]
    parts += ["## `[[item.level]]`", definitions["Level"]["description"]]
    parts += [
        _section(key, told, definitions, shared) for key, told in definitions["Level"]["properties"].items()
    ]
    return "\n\n".join(parts) + "\n"


def _section(
    key: str,
    told: Mapping[str, Any],
    definitions: Mapping[str, Any],
    shared: Mapping[str, Any] = model.Defaults.model_fields,
) -> str:
    facts = [f"Value: {form(told, definitions)}"]
    if "x-built-in" in told:
        facts.append(f"Built-in: {told['x-built-in']}")
    if told.get("x-on", list(KINDS)) != list(KINDS):
        facts.append(f"Only of {' and '.join(told['x-on'])} programs")
    if told.get("x-group") and key not in shared:
        facts.append("Not in `[defaults]`")
    lines = [f"#### `{key}`", "", told["description"], "", *(f"- {fact}" for fact in facts)]
    return "\n".join([*lines, "", told["x-why"]] if told.get("x-why") else lines)


def form(told: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return what may be written as a value, in words."""
    if "$ref" in told:
        keys = definitions[told["$ref"].rpartition("/")[2]]["properties"]
        return "a table of " + " and ".join(
            f"`{key}` ({form(each, definitions)})" for key, each in keys.items()
        )
    if "anyOf" in told:
        return " or ".join(
            dict.fromkeys(form(each, definitions) for each in told["anyOf"] if each != {"const": 0})
        )
    if "enum" in told:
        return (
            "one of " + ", ".join(f"`{word}`" for word in told["enum"])
            if len(told["enum"]) < 20
            else "a name"
        )
    if "const" in told:
        return f"`{told['const']}`"
    if told.get("type") == "array":
        return (
            f"a list of {form(told['items'], definitions).removeprefix('a ')}s"
            if "enum" not in told["items"]
            else "a list"
        )
    special = {SPAN_PATTERN: "a duration", SIZE_PATTERN: "a size", "^file:.": "`file:GLOB`"}
    return special.get(told.get("pattern", ""), _TYPES.get(told.get("type", ""), "a value"))
