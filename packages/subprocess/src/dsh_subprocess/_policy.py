"""What of a parent's environment a child inherits."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ASCII, so that case folding meets no letter beyond it (the Kelvin sign folds to k).
_CREDENTIAL = re.compile("KEY|PASSWORD|SECRET|TOKEN", re.IGNORECASE | re.ASCII)

DSH_ENV_PREFIX = "DSH_"
"""Where every managed variable's name begins. Nothing under it is ever inherited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvPolicy:
    """Decides which names a child inherits."""

    name: str

    def drops(self, name: str) -> bool:
        """Tell whether no child inherits this name."""
        return name.upper().startswith(DSH_ENV_PREFIX) or _CREDENTIAL.search(name) is not None


PARITY = EnvPolicy(name="parity")
"""The rule of the real ``dsh`` (BEHAVIOUR §2.1)."""

STRICT = EnvPolicy(name="strict")
"""What a shell gets."""
