"""What clients may call the served model."""

from collections.abc import Sequence

from netgain.server.errors import model_not_found


class ModelNames:
    """The served names, the first of which is the model's own in answers that were asked for none.

    An answer names the model as its request did.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.all = tuple(dict.fromkeys(names))

    def check(self, name: str | None) -> str:
        """The name to answer with. Raises `ApiError` (404) for one that is not served."""
        if name is None:
            return self.all[0]
        if name not in self.all:
            raise model_not_found(name, self.all)
        return name
