"""What the senders of operators' requests must be allowed."""

from __future__ import annotations

import pytest

from gantrymq.remoting.command import Command
from gantrymq.remoting.serving import access_rule
from gantrymq_diagnosis.requests import DiagnosisRequests
from gantrymq_diagnosis.service import REQUESTS, DiagnosisService

GROUP = {"topic": "A", "group": "G", "consumerGroup": "G", "timestamp": "0", "isForce": "true"}


def rules():
    return {code: access_rule(each) for code, each in DiagnosisService().handlers.items()}


@pytest.mark.parametrize(
    ("code", "ext", "needed"),
    [
        (203, GROUP, {"Get Group:G"}),
        (204, {"producerGroup": "G"}, {"Get Cluster"}),
        (208, {"consumerGroup": "G", "topicList": "B;A"}, {"Get Topic:B", "Get Topic:A", "Get Group:G"}),
        (222, GROUP, {"Update Topic:A", "Update Group:G"}),
        (300, GROUP, {"Get Topic:A"}),
        (303, GROUP, {"Get Topic:A", "Get Group:G"}),
        (305, {}, {"Get Cluster"}),
        (306, {}, {"Update Cluster"}),
        (
            308,
            {"topic": "A", "filterGroups": "G,H", "compareGroup": "G"},
            {"Get Topic:A", "Get Group:G", "Get Group:H"},
        ),
        (
            314,
            {"srcGroup": "S", "destGroup": "G", "topic": "A"},
            {"Update Topic:A", "Update Group:G", "Get Group:S"},
        ),
        (316, {}, {"Update Cluster"}),
        (317, {"isOrder": "false"}, {"Get Cluster"}),
        (328, {}, {"Get Cluster"}),
        (329, {}, {"Update Cluster"}),
        (343, GROUP, {"Get Group:G"}),
        (345, GROUP, {"Get Topic:A", "Get Group:G"}),
        (2003, {}, {"Get Cluster"}),
    ],
)
def test_a_request_states_the_resources_that_it_names(code, ext, needed):
    asked = Command(code)
    asked.ext = ext
    assert {shown(each) for each in rules()[code](asked)} == needed


def shown(requirement):
    (action,) = requirement.actions
    return f"{action.value} {requirement.resource}".removesuffix(":*").removesuffix(":")


def test_every_request_of_the_plugin_is_registered():
    assert sorted(REQUESTS) == sorted(DiagnosisRequests().handlers())
