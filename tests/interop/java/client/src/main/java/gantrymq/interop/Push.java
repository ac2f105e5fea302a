package gantrymq.interop;

import java.lang.reflect.Method;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A push consumer. Prints every message, and an "assigned" line each time its set of queues changes. Ends after
 * --until messages, or when standard input is closed, or on SIGTERM; in each case it leaves the group properly.
 */
final class Push {
    private static final int POLL_MS = 200;
    private static final int LEAVE_MS = 10_000;
    private final Options options;
    private final String topic;
    private final CountDownLatch end = new CountDownLatch(1);

    Push(Options options) {
        this.options = options;
        this.topic = options.need("topic");
    }

    boolean run() throws Exception {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(options.need("group"), Account.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setConsumeFromWhere(options.text("from", "first").equals("last")
            ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        // By default shutdown() tells the broker the progress at once, without the messages that listeners are still
        // busy with, though their "received" lines are out: the group would get them again.
        consumer.setAwaitTerminationMillisWhenShutdown(LEAVE_MS);
        consumer.setPollNameServerInterval(options.number("poll-ms", consumer.getPollNameServerInterval()));
        if (options.has("instance")) {
            consumer.setInstanceName(options.need("instance"));
        }
        setModel(consumer, options.text("model", "clustering").toUpperCase());
        consumer.subscribe(topic, options.text("sub", "*"));
        CountDownLatch wanted = new CountDownLatch(options.number("until", Integer.MAX_VALUE));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                Received.print(message);
                wanted.countDown();
            }
            if (wanted.getCount() == 0) {
                end.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        Events.print("started", "clientId", consumer.buildMQClientId());
        Input.whenClosed(end::countDown);
        background(() -> watchQueues(consumer));
        end.await();
        consumer.shutdown();
        Events.print("done");
        return true;
    }

    /** The enum MessageModel moved to another package in 5.0, so it is looked up by the setter's parameter. */
    static void setModel(DefaultMQPushConsumer consumer, String name) throws ReflectiveOperationException {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                for (Object model : method.getParameterTypes()[0].getEnumConstants()) {
                    if (((Enum<?>) model).name().equals(name)) {
                        method.invoke(consumer, model);
                        return;
                    }
                }
            }
        }
        throw new IllegalArgumentException("no message model " + name);
    }

    private void watchQueues(DefaultMQPushConsumer consumer) {
        Set<Integer> before = null;
        while (end.getCount() > 0) {
            Set<Integer> now = new TreeSet<>();
            for (MessageQueue queue :
                consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
                if (queue.getTopic().equals(topic)) {
                    now.add(queue.getQueueId());
                }
            }
            if (!now.equals(before)) {
                Events.print("assigned", "topic", topic, "queues", now);
                before = now;
            }
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private static void background(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }
}
