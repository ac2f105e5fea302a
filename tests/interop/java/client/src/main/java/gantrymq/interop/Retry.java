package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer that fails: a message with the tag {@code failN} as long as it was consumed less than N times before
 * this one, any other never. With --namespace NAME (and --v2) it lives in one. A line for each try, until standard input
 * is closed.
 */
final class Retry {
    private static final int LEAVE_MS = 10_000;
    private final Options options;

    Retry(Options options) {
        this.options = options;
    }

    boolean run() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.need("group"));
        Exchange.prepare(consumer, options);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(LEAVE_MS);
        consumer.setPollNameServerInterval(options.number("poll-ms", consumer.getPollNameServerInterval()));
        consumer.setMaxReconsumeTimes(options.number("max-times", consumer.getMaxReconsumeTimes()));
        consumer.setSuspendCurrentQueueTimeMillis(options.number("suspend-ms", 1000));
        consumer.subscribe(options.need("topic"), "*");
        int level = options.number("level", 0);
        int workMs = options.number("work-ms", 0);
        if (options.text("listener", "concurrent").equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                allGood(messages, workMs) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(level);
                return allGood(messages, workMs) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        Events.print("started", "clientId", consumer.buildMQClientId());
        Input.whenClosed(end::countDown);
        end.await();
        consumer.shutdown();
        Events.print("done");
        return true;
    }

    private static boolean allGood(List<MessageExt> messages, int workMs) {
        boolean all = true;
        for (MessageExt message : messages) {
            String tags = message.getTags() == null ? "" : message.getTags();
            int failures = tags.startsWith("fail") ? Integer.parseInt(tags.substring(4)) : 0;
            boolean good = message.getReconsumeTimes() >= failures;
            try {
                Thread.sleep(workMs);
            } catch (InterruptedException e) {
                return false;
            }
            Events.print("tried", "topic", message.getTopic(), "queue", message.getQueueId(), "offset",
                message.getQueueOffset(), "body", new String(message.getBody(), StandardCharsets.UTF_8), "keys",
                message.getKeys(), "times", message.getReconsumeTimes(), "good", good, "at", System.nanoTime() / 1000000);
            all &= good;
        }
        return all;
    }
}
