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
 * A push consumer, orderly or concurrent (--listener), until standard input is closed. A short line for each message,
 * the body without the dots of {@link Stream}, with the machine's monotonic time, by which the lines of several
 * consumers can be put into one order.
 */
final class Follow {
    private static final int LEAVE_MS = 10_000;
    private final Options options;

    Follow(Options options) {
        this.options = options;
    }

    boolean run() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.need("group"));
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.setAwaitTerminationMillisWhenShutdown(LEAVE_MS);
        consumer.setPollNameServerInterval(options.number("poll-ms", consumer.getPollNameServerInterval()));
        consumer.subscribe(options.need("topic"), "*");
        if (options.text("listener", "concurrent").equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                print(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                print(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        Events.print("started", "clientId", consumer.buildMQClientId());
        Input.whenClosed(end::countDown);
        end.await();
        consumer.shutdown();
        Events.print("done");
        return true;
    }

    private static void print(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            Events.print("got", "b", message.getBrokerName(), "q", message.getQueueId(), "o", message.getQueueOffset(),
                "body", withoutDots(message.getBody()), "at", System.nanoTime());
        }
    }

    private static String withoutDots(byte[] body) {
        int end = body.length;
        while (end > 0 && body[end - 1] == '.') {
            end--;
        }
        return new String(body, 0, end, StandardCharsets.UTF_8);
    }
}
