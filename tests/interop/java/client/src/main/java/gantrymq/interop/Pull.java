package gantrymq.interop;

import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Reads every queue of a topic from its smallest to its largest offset, as they were at the start. */
final class Pull {
    private static final int BATCH = 32;
    private static final int POLL_MS = 200;
    private static final long ROUTE_WAIT_NANOS = TimeUnit.SECONDS.toNanos(30);
    private static final int MAX_EMPTY_ANSWERS = 50;
    private final Options options;
    private final String topic;

    Pull(Options options) {
        this.options = options;
        this.topic = options.need("topic");
    }

    boolean run() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(options.text("group", "interop-puller"), Account.hook());
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.start();
        try {
            int count = 0;
            for (MessageQueue queue : new TreeSet<>(queues(consumer))) {
                count += read(consumer, queue);
            }
            Events.print("done", "count", count);
        } finally {
            consumer.shutdown();
        }
        return true;
    }

    private Set<MessageQueue> queues(DefaultMQPullConsumer consumer) throws Exception {
        long deadline = System.nanoTime() + ROUTE_WAIT_NANOS;
        while (true) {
            try {
                return consumer.fetchSubscribeMessageQueues(topic);
            } catch (MQClientException e) {
                if (System.nanoTime() > deadline) {
                    throw e;
                }
                Thread.sleep(POLL_MS);
            }
        }
    }

    private int read(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long min = consumer.minOffset(queue);
        long max = consumer.maxOffset(queue);
        Events.print("queue", "brokerName", queue.getBrokerName(), "queueId", queue.getQueueId(),
            "minOffset", min, "maxOffset", max);
        int count = 0;
        int empty = 0;
        for (long offset = min; offset < max; ) {
            PullResult result = consumer.pull(queue, options.text("sub", "*"), offset, BATCH);
            switch (result.getPullStatus()) {
                case FOUND:
                    for (MessageExt message : result.getMsgFoundList()) {
                        Received.print(message);
                        count++;
                    }
                    break;
                case NO_MATCHED_MSG:
                    break;
                default:
                    if (++empty > MAX_EMPTY_ANSWERS) {
                        throw new IllegalStateException(queue + " at " + offset + ": " + result);
                    }
                    Thread.sleep(POLL_MS);
            }
            offset = result.getNextBeginOffset();
        }
        return count;
    }
}
