package gantrymq.interop;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Consumes a backlog of --count messages by push with --threads threads, doing nothing with them, and prints the rate
 * from the first to the last. The first --warmup messages are consumed, not counted. --sql EXPRESSION takes those alone
 * that match.
 */
final class Drain {
    private final Options options;
    private final long count;
    private final long warmup;
    private final AtomicLong seen = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();
    private final CountDownLatch end = new CountDownLatch(1);
    private volatile long begin;
    private volatile long finish;

    Drain(Options options) {
        this.options = options;
        this.count = options.number("count", 1_000_000);
        this.warmup = options.number("warmup", 0);
    }

    boolean run() throws Exception {
        int threads = options.number("threads", 20);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.need("group"));
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(threads);
        consumer.setConsumeThreadMax(threads);
        consumer.subscribe(options.need("topic"),
            options.has("sql") ? MessageSelector.bySql(options.need("sql")) : MessageSelector.byTag("*"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long size = 0;
            for (int i = 0; i < messages.size(); i++) {
                size += messages.get(i).getBody().length;
            }
            bytes.addAndGet(size);
            count(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = end.await(options.number("deadline", 300), TimeUnit.SECONDS);
        consumer.shutdown();
        double seconds = ((all ? finish : System.nanoTime()) - begin) / 1e9;
        Events.print("drained", "complete", all, "threads", threads, "messages", seen.get(), "bytes", bytes.get(),
            "seconds", seconds, "messagesPerSecond", (Math.min(seen.get(), count) - warmup) / seconds);
        return all;
    }

    /** The clock starts with the call that passes the warm-up and stops with the one that brings the last message. */
    private void count(int messages) {
        long after = seen.addAndGet(messages);
        long before = after - messages;
        if (before <= warmup && after > warmup) {
            begin = System.nanoTime();
        }
        if (before < count && after >= count) {
            finish = System.nanoTime();
            end.countDown();
        }
    }
}
