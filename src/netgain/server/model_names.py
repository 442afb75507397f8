"""What clients may call the served models."""

from collections.abc import Sequence

from netgain.errors import ConfigurationError
from netgain.server.errors import bad_request, model_not_found


class ModelNames:
    """The names of the model that generates, and of the one that only makes embeddings.

    An answer names the model as its request did; the first name answers requests that name none.
    Raises `ConfigurationError` for one name for both.
    """

    def __init__(self, names: Sequence[str], encoder: str | None = None) -> None:
        self.generating = tuple(dict.fromkeys(names))
        self.encoder = encoder
        if encoder in self.generating:
            raise ConfigurationError(
                f"both models would be called {encoder!r}: give the generating one another name "
                "with --served-model-name"
            )

    @property
    def all(self) -> tuple[str, ...]:
        """Every name."""
        return self.generating if self.encoder is None else (*self.generating, self.encoder)

    def check(self, name: str | None) -> str:
        """The name to answer with. Raises `ApiError` (400, 404) for one that does not generate."""
        if name is None:
            return self.generating[0]
        if name in self.generating:
            return name
        if name == self.encoder:
            raise bad_request(
                f"the model {name!r} makes embeddings only: ask /v1/embeddings", "model"
            )
        raise model_not_found(name, self.all)

    def known(self, name: str) -> str:
        """Any served name. Raises `ApiError` (404) for another."""
        if name not in self.all:
            raise model_not_found(name, self.all)
        return name

    def is_encoder(self, name: str | None) -> bool:
        """Whether embeddings asked for by this name, or by none, are the encoder's."""
        return self.encoder is not None and name in (None, self.encoder)
