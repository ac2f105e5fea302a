import json

from gantrymq.client.connection.registration import ConsumerInfo, heartbeat_body
from gantrymq.model.subscription import Subscription


def test_heartbeat_has_the_members_that_java_sends(golden):
    recorded = json.loads(golden("heartbeat").payload)
    consumer = recorded["consumerDataSet"][0]
    subscriptions = [Subscription.from_json(one) for one in consumer["subscriptionDataSet"]]
    info = ConsumerInfo(
        consumer["groupName"],
        consumer["consumeType"],
        consumer["messageModel"],
        consumer["consumeFromWhere"],
        lambda: subscriptions,
    )
    groups = [producer["groupName"] for producer in recorded["producerDataSet"]]
    assert heartbeat_body(recorded["clientID"], groups, [info]) == golden("heartbeat").payload


def test_heartbeat_of_a_producer_is_javas(golden):
    assert (
        heartbeat_body("127.0.0.1@p1", ["PG_ops", "CLIENT_INNER_PRODUCER"], []) == golden("producer heartbeat").payload
    )
