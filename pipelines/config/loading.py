"""From YAML files and dotted overrides to a checked configuration, with every error found at once."""

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from pipelines.config.schema import Section

Config = TypeVar("Config", bound=Section)


class ConfigError(Exception):
    """One or more settings are wrong; `messages` holds a line for each."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = list(messages)


@dataclass
class _Settings:
    """Values as given, with the place that each came from, by dotted path."""

    tree: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def put(self, path: tuple[str, ...], value: Any, place: str) -> None:
        node = self.tree
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                node[key] = {}
            node = node[key]
        node[path[-1]] = value
        self.places[".".join(path)] = place

    def place(self, path: str) -> str:
        """The most exact place known for `path`: its own, or that of the nearest block around it."""
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            known = self.places.get(".".join(parts[:end]))
            if known:
                return known
        inside = (place for given, place in self.places.items() if given.startswith(f"{path}."))
        return next(inside, "configuration")


def load_config(schema: type[Config], file: str | None = None, overrides: Sequence[str] = ()) -> Config:
    """The defaults of `schema`, then `file`, then `overrides` such as `sampling.temperature=0.6`; the last one wins.

    Raises ConfigError with one message for each thing that is wrong.
    """
    settings = _Settings()
    errors: list[str] = []
    if file is not None:
        errors += _read_file(schema, Path(file), settings)
    for override in overrides:
        errors += _read_override(schema, override, settings)
    try:
        config = schema.model_validate(settings.tree)
    except ValidationError as failure:
        errors += _explain_all(schema, failure, settings)
    if errors:
        raise ConfigError(errors)
    return config


def dump_config(config: Section) -> str:
    """The resolved configuration as YAML, in the order of the schema; it loads as is."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)


def _read_file(schema: type[Section], file: Path, settings: _Settings) -> list[str]:
    if file.is_dir():
        return [f"{file}: is a folder; --config takes a YAML file"]
    if not file.exists():
        near = difflib.get_close_matches(file.name, [p.name for p in file.parent.glob("*.yaml")], n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        return [f"{file.absolute()}: no such configuration file{hint}"]
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        return [f"{file}: is not UTF-8 text ({error.reason} at byte {error.start})"]
    except yaml.YAMLError as error:
        return [f"{file}: is not valid YAML: {' '.join(str(error).split())}"]
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        return [f"{file}: must hold `section: {{key: value}}` blocks"]
    return _read_mapping(schema, root, (), str(file), settings)


def _read_mapping(
    schema: type[Section] | None, node: yaml.MappingNode, path: tuple[str, ...], file: str, settings: _Settings
) -> list[str]:
    """Record the leaves below `node`; a key that stands twice in one block is an error, not a silent choice."""
    errors = []
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        here = (*path, key)
        if key in seen:
            errors.append(f"{file}:{line}: {'.'.join(here)}: stands twice (also on line {seen[key]})")
        seen[key] = line
        section = _section(schema, key)
        if isinstance(value_node, yaml.MappingNode):
            settings.places[".".join(here)] = f"{file}:{line}"
            errors += _read_mapping(section, value_node, here, file, settings)
            continue
        value = yaml.SafeLoader("").construct_object(value_node, deep=True)
        block_left_empty = section is not None and value is None
        if not block_left_empty:
            settings.put(_expand(section, here), value, f"{file}:{line}")
    return errors


def _read_override(schema: type[Section], override: str, settings: _Settings) -> list[str]:
    name, equals, text = override.partition("=")
    if not equals or not name:
        return [f"{override!r}: is not an override; write section.key=value, for example sampling.temperature=0.6"]
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    path = tuple(name.split("."))
    section: type[Section] | None = schema
    for key in path:
        section = _section(section, key)
    path = _expand(section, path)
    if _takes_text(schema, path) and not isinstance(value, str):
        value = text  # `{problem}` is a text here, and a mapping in YAML
    settings.put(path, value, "command line")
    return []


def _section(schema: type[Section] | None, key: str) -> type[Section] | None:
    """The block that `key` opens in `schema`, or None for a leaf or an unknown key."""
    known = schema.model_fields.get(key) if schema is not None else None
    kind = known.annotation if known is not None else None
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _takes_text(schema: type[Section], path: tuple[str, ...]) -> bool:
    section: type[Section] | None = schema
    for key in path[:-1]:
        section = _section(section, key)
    known = section.model_fields.get(path[-1]) if section is not None else None
    return known is not None and known.annotation is str


def _expand(section: type[Section] | None, path: tuple[str, ...]) -> tuple[str, ...]:
    """`model` with a bare value means `model.name`."""
    return (*path, section.shorthand) if section is not None and section.shorthand else path


def _explain_all(schema: type[Section], failure: ValidationError, settings: _Settings) -> list[str]:
    """A message a setting: where a union refuses a value with one error a branch, the messages become one."""
    by_path: dict[str, str] = {}
    for error in failure.errors():
        path = ".".join(_known_steps(schema, [str(step) for step in error["loc"]]))
        if path in by_path and error["type"] == "literal_error":
            by_path[path] = by_path[path].replace(", got", f" or {error['ctx']['expected']}, got", 1)
        else:
            by_path[path] = _explain(schema, path, error, settings)
    return list(by_path.values())


def _explain(schema: type[Section], path: str, error: Mapping[str, Any], settings: _Settings) -> str:
    """One pydantic error as `place: dotted.path: what is wrong (what to do)`."""
    known = path.split(".")
    place = settings.place(path)
    kind, given = error["type"], error.get("input")
    if kind == "extra_forbidden":
        valid = _keys(schema, known[:-1])
        near = difflib.get_close_matches(known[-1], valid, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else _elsewhere(schema, known[-1])
        return f"{place}: {path}: unknown key ({hint}valid: {', '.join(valid)})"
    if kind == "value_error":
        # A rule over several settings names them itself.
        return (
            f"{place}: {path}: {error['ctx']['error']}, got {given!r}" if path else f"{place}: {error['ctx']['error']}"
        )
    if kind in ("model_type", "model_attributes_type"):
        return f"{place}: {path}: expected a block with {', '.join(_keys(schema, known))}, got {given!r}"
    message = error["msg"].removeprefix("Input should be ")
    message = (
        "an integer" if kind in ("int_parsing", "int_type") else message.split(", unable")[0].replace("a valid ", "a ")
    )
    hint = ""
    if kind == "literal_error" and isinstance(given, str):
        choices = [text.strip("'") for text in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        near = difflib.get_close_matches(given, choices, n=1, cutoff=0.5)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
    return f"{place}: {path}: expected {message}, got {given!r}{hint}"


def _known_steps(schema: type[Section], steps: Sequence[str]) -> list[str]:
    """The part of a pydantic location that a user wrote: union branches at its end are pydantic's own."""
    section: type[Section] | None = schema
    for at, step in enumerate(steps):
        if section is None:
            numbers = [s for s in steps[at:] if s.isdigit()]
            return [*steps[:at], *numbers]
        section = _section(section, step)
    return list(steps)


def _keys(schema: type[Section], path: Iterable[str]) -> list[str]:
    section: type[Section] | None = schema
    for step in path:
        section = _section(section, step)
    return list(section.model_fields) if section is not None else []


def _elsewhere(schema: type[Section], key: str) -> str:
    """Names the section that does know `key`: the commonest slip is a key in the wrong block."""
    homes = [f"{name}.{key}" for name in schema.model_fields if key in _keys(schema, [name])]
    return f"did you mean '{homes[0]}'? " if homes else ""


def describe_settings(schema: type[Section], prefix: str = "") -> list[str]:
    """One line a setting: dotted path, default and help text, for `--help`."""
    lines = []
    for name, known in schema.model_fields.items():
        section = _section(schema, name)
        if section is not None:
            lines += describe_settings(section, f"{prefix}{name}.")
            continue
        default = known.get_default(call_default_factory=True)
        lines.append(f"  {prefix}{name}={_show(default)}  {_type_name(known.annotation)}  {known.description or ''}")
    return lines


def _show(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return repr(value) if isinstance(value, str) and ("\n" in value or " " in value) else str(value)


def _type_name(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return "|".join(map(str, typing.get_args(kind)))
    if origin in (types.UnionType, typing.Union):
        return "|".join(_type_name(part) for part in typing.get_args(kind) if part is not type(None))
    if origin is tuple:
        return f"list of {_type_name(typing.get_args(kind)[0])}"
    return getattr(kind, "__name__", str(kind))
