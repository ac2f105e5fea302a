package gantrymq.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;

/**
 * Pairs of consumers that disagree, one group each: --prefix P makes P-subscriptions, P-message-model and
 * P-consume-type; and P-agree, whose two members agree. Heartbeats come every second. Stays until its input is closed.
 */
final class Disagree {
    private static final int HEARTBEAT_MS = 1000;
    private final Options options;
    private final String topic;
    private final List<Runnable> ends = new ArrayList<>();

    Disagree(Options options) {
        this.options = options;
        this.topic = options.need("topic");
    }

    boolean run() throws Exception {
        String prefix = options.need("prefix");
        for (String kind : new String[] {"agree", "subscriptions", "message-model", "consume-type"}) {
            push(prefix + "-" + kind, kind + "-one", "*", "CLUSTERING");
        }
        push(prefix + "-agree", "agree-two", "*", "CLUSTERING");
        push(prefix + "-subscriptions", "subscriptions-two", "TagA", "CLUSTERING");
        push(prefix + "-message-model", "message-model-two", "*", "BROADCASTING");
        pull(prefix + "-consume-type", "consume-type-two");
        CountDownLatch end = new CountDownLatch(1);
        Input.whenClosed(end::countDown);
        Events.print("started");
        end.await();
        ends.forEach(Runnable::run);
        Events.print("done");
        return true;
    }

    private void push(String group, String instance, String expression, String model) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setInstanceName(instance);
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_MS);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        Push.setModel(consumer, model);
        consumer.subscribe(topic, expression);
        consumer.registerMessageListener(
            (MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        ends.add(consumer::shutdown);
    }

    private void pull(String group, String instance) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setInstanceName(instance);
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_MS);
        consumer.setRegisterTopics(Collections.singleton(topic));
        consumer.start();
        consumer.fetchSubscribeMessageQueues(topic);
        ends.add(consumer::shutdown);
    }
}
