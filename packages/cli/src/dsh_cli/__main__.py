"""``python -m dsh_cli`` is ``dshpy``."""

from ._main import main

main()
