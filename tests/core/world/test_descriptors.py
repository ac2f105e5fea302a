"""The limit of open files of this process."""

import resource

from gantrymq.world.real import raise_descriptor_limit


def test_the_soft_limit_of_descriptors_is_lifted_to_the_hard_one():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = min(256, before[1])
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lower, before[1]))
        raise_descriptor_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft > lower or hard == lower
        assert hard == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
