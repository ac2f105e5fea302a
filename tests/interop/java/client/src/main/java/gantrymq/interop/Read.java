package gantrymq.interop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MQPullConsumerScheduleService;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPullConsumerImpl;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The consumers that ask for messages themselves, on a topic that has --count messages in its queues, one after the
 * other: the legacy pull consumer, its schedule service, and the lite pull consumer by subscription and by assignment.
 * Each prints what it did as an event of its own; groups are named after the topic.
 */
final class Read {
    private static final long WAIT_NANOS = TimeUnit.SECONDS.toNanos(60);
    private static final int POLL_MS = 1000;
    private final Options options;
    private final String topic;
    private final int count;

    Read(Options options) {
        this.options = options;
        this.topic = options.need("topic");
        this.count = options.number("count", 1);
    }

    boolean run() throws Exception {
        legacy();
        legacyOffsets();
        scheduled();
        subscribed("subscribed", count);
        subscribed("subscribed again", 0);
        assigned();
        Events.print("done");
        return true;
    }

    /** Pulls every queue from its smallest offset, and commits the end of each by hand. */
    private void legacy() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(topic + "-legacy");
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.start();
        List<String> bodies = new ArrayList<>();
        TreeMap<String, Object> ends = new TreeMap<>();
        TreeMap<String, Object> before = new TreeMap<>();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        for (MessageQueue queue : queues) {
            before.put("" + queue.getQueueId(), consumer.fetchConsumeOffset(queue, true));
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pullBlockIfNotFound(queue, "*", offset, 32);
                for (MessageExt message : result.getMsgFoundList()) {
                    bodies.add(new String(message.getBody()));
                }
                offset = result.getNextBeginOffset();
            }
            consumer.updateConsumeOffset(queue, offset);
            ends.put("" + queue.getQueueId(), offset);
        }
        offsets(consumer).persistAll(queues);
        Events.print("legacy", "bodies", bodies, "ends", ends, "before", before);
        consumer.shutdown();
    }

    /** Another consumer of the group reads back what was committed. */
    private void legacyOffsets() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(topic + "-legacy");
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setInstanceName("second");
        consumer.start();
        TreeMap<String, Object> ends = new TreeMap<>();
        for (MessageQueue queue : new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic))) {
            ends.put("" + queue.getQueueId(), consumer.fetchConsumeOffset(queue, true));
            if (queue.getQueueId() == 0) {
                Events.print("found by time", "offset", consumer.searchOffset(queue, 0));
            }
        }
        Events.print("committed", "ends", ends);
        consumer.shutdown();
    }

    private static OffsetStore offsets(DefaultMQPullConsumer consumer) {
        DefaultMQPullConsumerImpl implementation = consumer.getDefaultMQPullConsumerImpl();
        return implementation.getOffsetStore();
    }

    /** The schedule service hands out queues to pull. */
    private void scheduled() throws Exception {
        MQPullConsumerScheduleService service = new MQPullConsumerScheduleService(topic + "-scheduled");
        service.getDefaultMQPullConsumer().setNamesrvAddr(options.need("namesrv"));
        List<String> bodies = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch open = new CountDownLatch(count);
        service.registerPullTaskCallback(topic, (queue, context) -> {
            try {
                long offset = Math.max(0, context.getPullConsumer().fetchConsumeOffset(queue, false));
                PullResult result = context.getPullConsumer().pull(queue, "*", offset, 32);
                List<MessageExt> found = result.getMsgFoundList();
                context.getPullConsumer().updateConsumeOffset(queue, result.getNextBeginOffset());
                context.setPullNextDelayTimeMillis(100);
                if (found != null) {
                    for (MessageExt message : found) {
                        bodies.add(new String(message.getBody()));
                        open.countDown(); // last: the shutdown that follows stores the offsets
                    }
                }
            } catch (Exception e) {
                Errors.print(-1, e);
            }
        });
        service.start();
        boolean good = open.await(60, TimeUnit.SECONDS);
        Events.print("scheduled", "good", good, "bodies", bodies);
        service.shutdown();
    }

    private DefaultLitePullConsumer lite(String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        return consumer;
    }

    private void subscribed(String event, int wanted) throws Exception {
        DefaultLitePullConsumer consumer = lite(topic + "-lite");
        consumer.subscribe(topic, "*");
        consumer.start();
        List<String> bodies = poll(consumer, wanted);
        consumer.commitSync();
        TreeMap<String, Object> ends = new TreeMap<>();
        for (MessageQueue queue : consumer.fetchMessageQueues(topic)) {
            ends.put("" + queue.getQueueId(), consumer.committed(queue));
        }
        Events.print(event, "bodies", bodies, "ends", ends);
        consumer.shutdown();
    }

    private void assigned() throws Exception {
        DefaultLitePullConsumer consumer = lite(topic + "-assigned");
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        consumer.assign(queues);
        List<String> first = poll(consumer, count);
        for (MessageQueue queue : queues) {
            consumer.seekToBegin(queue);
        }
        List<String> again = poll(consumer, count);
        MessageQueue queue = new TreeSet<>(queues).first();
        long byTime = consumer.offsetForTimestamp(queue, 0L);
        for (MessageQueue each : queues) {
            consumer.seekToEnd(each);
        }
        List<String> none = poll(consumer, 0);
        consumer.seek(queue, 1);
        List<String> rest = poll(consumer, options.number("behind", 0));
        consumer.commitSync();
        Events.print("assigned", "first", first, "again", again, "none", none, "rest", rest, "byTime", byTime,
            "committed", consumer.committed(queue));
        consumer.shutdown();
    }

    /** Poll until there are as many as wanted; with 0, twice, for what should not be there. */
    private static List<String> poll(DefaultLitePullConsumer consumer, int wanted) {
        List<String> bodies = new ArrayList<>();
        long deadline = System.nanoTime() + WAIT_NANOS;
        int rounds = 0;
        while (wanted == 0 ? rounds < 2 : bodies.size() < wanted && System.nanoTime() < deadline) {
            for (MessageExt message : consumer.poll(POLL_MS)) {
                bodies.add(new String(message.getBody()));
            }
            rounds++;
        }
        return bodies;
    }
}
