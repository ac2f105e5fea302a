"""Write kafka_names-3.0.12.txt: methods and options of kafka-python's classes.

    pip install kafka-python==3.0.12
    python tests/client/data/kafka_names.py

A line is a class, its public methods, and the options that not all three classes have; connection options, which all
have, are one paragraph of the page.
"""

from __future__ import annotations

from pathlib import Path

import kafka

CLASSES = (kafka.KafkaProducer, kafka.KafkaConsumer, kafka.KafkaAdminClient)


def main() -> None:
    common = set.intersection(*(set(each.DEFAULT_CONFIG) for each in CLASSES))
    lines = []
    for each in CLASSES:
        methods = {name for name in dir(each) if not name.startswith("_") and callable(getattr(each, name))}
        lines.append(f"{each.__name__}: {' '.join(sorted(methods | (set(each.DEFAULT_CONFIG) - common)))}\n")
    (Path(__file__).parent / "kafka_names-3.0.12.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
