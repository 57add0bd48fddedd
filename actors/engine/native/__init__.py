"""Kernels compiled on first use for the machine's own processor. Importing this package alone loads no torch.

They are an extra: without a C++ compiler, or with MATHLETE_NATIVE=0, `load` returns None, `unavailable_reason` says
why, and callers do the same with torch.
"""

import os
from functools import cache
from typing import TYPE_CHECKING

from actors.engine.native.build import Unavailable, ensure_library

if TYPE_CHECKING:
    from actors.engine.native.kernels import Kernels

__all__ = ["load", "unavailable_reason"]


def load() -> "Kernels | None":
    """Return the kernels, or None where there are none. The first call on a machine compiles, for some seconds."""
    return _load()[0]


def unavailable_reason() -> str | None:
    """Return why `load` returns None, in a sentence; None where it does not."""
    return _load()[1]


@cache
def _load() -> "tuple[Kernels | None, str | None]":
    if os.environ.get("MATHLETE_NATIVE") == "0":
        return None, "switched off by MATHLETE_NATIVE=0"
    # Imported before the library is loaded: it is torch that brings the OpenMP runtime.
    from actors.engine.native.kernels import Kernels

    try:
        return Kernels(ensure_library()), None
    except Unavailable as error:
        return None, str(error)
    except (OSError, AttributeError) as error:
        return None, f"the native library cannot be kept or loaded: {error}"
