"""The header classes by the codes they are for: what answers requests has no need of such a table.

Those of `gantrymq.remoting.headers`, of the client's own modules and of the name server, whoever imported what before.
"""

from importlib import import_module
from pkgutil import iter_modules, walk_packages

from gantrymq import client
from gantrymq.remoting import headers
from gantrymq.remoting.headers.base import Header

for module in iter_modules(headers.__path__, f"{headers.__name__}."):
    import_module(module.name)
for module in walk_packages(client.__path__, f"{client.__name__}."):
    if module.name.rpartition(".")[2] not in ("opentelemetry", "sqlalchemy_records"):  # they need what may be absent
        import_module(module.name)
import_module("gantrymq_nameserver.headers")
OF_THESE = ("gantrymq.remoting.headers.", "gantrymq.client.", "gantrymq_nameserver.")


def _below(base: type[Header]) -> list[type[Header]]:
    return [cls for child in base.__subclasses__() for cls in (child, *_below(child))]


# A header's class is made anew to have slots; the first one has no codes.
CLASSES = sorted(
    {cls for cls in _below(Header) if cls.codes and cls.__module__.startswith(OF_THESE)}, key=lambda cls: cls.__name__
)
REQUEST_HEADERS = {code: cls for cls in CLASSES for code in cls.codes if not cls.__name__.endswith("Response")}
RESPONSE_HEADERS = {code: cls for cls in CLASSES for code in cls.codes if cls.__name__.endswith("Response")}
