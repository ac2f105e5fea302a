"""A scrape, taken apart by Prometheus's own parser, and what it shows of groups."""

from prometheus_client.parser import text_string_to_metric_families


def commit(cluster, group, queue, queue_offset):
    """Commit for a group, which is created."""
    cluster.broker.groups.require(group)
    cluster.broker.offsets.commit(group, queue, queue_offset)


class Figures:
    """Families and samples of a scrape."""

    def __init__(self, text):
        self.families = {each.name: each for each in text_string_to_metric_families(text.decode())}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def __call__(self, name, /, **labels):
        """The one value of *name* that has at least these labels; None if there is none."""
        found = [
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) < 2, found
        return found[0] if found else None
