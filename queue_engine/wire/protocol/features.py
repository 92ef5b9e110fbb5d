"""The features that a client may request in IDENTIFY beside times and sizes: TLS and a compression."""

from dataclasses import dataclass

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.options.options import Options

DEFAULT_DEFLATE_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Features:
    """The layers that IDENTIFY has agreed on. deflate_level: as answered, without deflate, too."""

    tls: bool = False
    snappy: bool = False
    deflate: bool = False
    deflate_level: int = DEFAULT_DEFLATE_LEVEL

    @property
    def has_layers(self) -> bool:
        return self.tls or self.snappy or self.deflate


NO_FEATURES = Features()


def agreed_features(options: Options, *, tls: bool, snappy: bool, deflate: bool, deflate_level: int) -> Features:
    """The features of a client that requests these, by nsqd's rules: those that the server does not offer are off.

    Raises ProtocolError E_IDENTIFY_FAILED for two compressions at once.
    """
    deflate = deflate and options.deflate
    snappy = snappy and options.snappy
    if deflate and snappy:
        raise ProtocolError("E_IDENTIFY_FAILED", "cannot enable both deflate and snappy compression")
    level = deflate_level if deflate and deflate_level > 0 else DEFAULT_DEFLATE_LEVEL
    return Features(options.has_tls and tls, snappy, deflate, min(level, options.max_deflate_level))
