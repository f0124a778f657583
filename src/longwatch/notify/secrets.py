"""An address that sends is a secret: whoever reads it may send too."""

#: What stands between the parts of an address.
_BETWEEN = ":/@?&=#,;"
#: A shorter part is a word such as a service's name, whose loss would spoil a message and hide nothing.
_SHORTEST = 6


def whole(url: str) -> list[str]:
    """Return an address with and without the service in front."""
    return [url, url.partition("://")[2]]


def parts(url: str) -> list[str]:
    """Return the address and each part of it that may be a key: what a library quotes is seldom the whole."""
    plain = "".join("\n" if c in _BETWEEN else c for c in whole(url)[1])
    return [*whole(url), *(part for part in plain.split("\n") if len(part) >= _SHORTEST)]


def service(url: str) -> str:
    """Return what may be said of an address: the service's name."""
    return url.partition("://")[0] or "address"
