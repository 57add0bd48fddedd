"""Secrets of the environment never leave the machine."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
_SHORTEST = 8
"""Characters of a secret; what is shorter may stand anywhere by chance."""
HIDDEN = "***"


def secret_values(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The values of all variables whose name says that they are secret, the longest first."""
    found = {
        value
        for name, value in environment.items()
        if name.upper().endswith(_SECRET) and len(value) >= _SHORTEST and not Path(value).is_absolute()
    }
    return sorted(found, key=len, reverse=True)


def without_secrets(value: Any, secrets: list[str]) -> Any:
    """`value`, of plain JSON types, with every secret inside a text replaced."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, Mapping):
        return {without_secrets(key, secrets): without_secrets(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item, secrets) for item in value]
    return value
