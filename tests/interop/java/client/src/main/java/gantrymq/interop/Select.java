package gantrymq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Selectors of the official client on one topic, command by command: one on each line of standard input, its fields
 * separated by tabs, TYPE sql or tag. Ends when standard input is closed.
 *
 * <pre>
 * send QUEUE BODY TAG NAME VALUE NAME VALUE ...  one message; an empty TAG is none
 * pull TYPE EXPRESSION                           every queue from its beginning to its end, by the pull consumer
 * push GROUP TYPE EXPRESSION                     a push consumer of that group, which stays; "got" for each message
 * leave                                          every push consumer leaves
 * </pre>
 */
final class Select {
    private static final int BATCH = 32;
    private static final int HEARTBEAT_MS = 500;
    private static final long VERSION_NANOS = TimeUnit.SECONDS.toNanos(40);
    private final Options options;
    private final String topic;
    private final List<DefaultMQPushConsumer> pushing = new ArrayList<>();
    private DefaultMQProducer producer;
    private DefaultMQPullConsumer puller;

    Select(Options options) {
        this.options = options;
        this.topic = options.need("topic");
    }

    boolean run() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                obey(words);
            } catch (MQClientException e) {
                Events.print("refused", "code", e.getResponseCode(), "message", e.getErrorMessage());
            } catch (MQBrokerException e) {
                Events.print("refused", "code", e.getResponseCode(), "message", e.getErrorMessage());
            }
        }
        leave();
        Events.print("done");
        return true;
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "send":
                send(words);
                break;
            case "pull":
                pull(selector(words[1], words[2]));
                break;
            case "push":
                push(words[1], selector(words[2], words[3]));
                break;
            case "leave":
                leave();
                Events.print("left");
                break;
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    private static MessageSelector selector(String type, String expression) {
        return type.equals("sql") ? MessageSelector.bySql(expression) : MessageSelector.byTag(expression);
    }

    private void send(String[] words) throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("select-producer");
            producer.setNamesrvAddr(options.need("namesrv"));
            producer.start();
        }
        Message message = new Message(topic, words[3], words[2].getBytes(StandardCharsets.UTF_8));
        for (int i = 4; i < words.length; i += 2) {
            message.putUserProperty(words[i], words[i + 1]);
        }
        int queueId = Integer.parseInt(words[1]);
        producer.send(message, (queues, sent, id) -> {
            for (MessageQueue queue : queues) {
                if (queue.getQueueId() == (int) id) {
                    return queue;
                }
            }
            throw new IllegalArgumentException("no queue " + id);
        }, queueId);
        Events.print("sent", "body", words[2]);
    }

    private void pull(MessageSelector selector) throws Exception {
        if (puller == null) {
            puller = new DefaultMQPullConsumer("select-puller");
            puller.setNamesrvAddr(options.need("namesrv"));
            puller.setHeartbeatBrokerInterval(HEARTBEAT_MS);
            puller.start();
        }
        List<String> bodies = new ArrayList<>();
        for (MessageQueue queue : puller.fetchSubscribeMessageQueues(topic)) {
            long max = puller.maxOffset(queue);
            long offset = puller.minOffset(queue);
            while (offset < max) {
                PullResult result = pulled(queue, selector, offset);
                if (result.getMsgFoundList() != null) {
                    for (MessageExt message : result.getMsgFoundList()) {
                        bodies.add(body(message));
                    }
                }
                if (result.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " stays at " + offset + ": " + result);
                }
                offset = result.getNextBeginOffset();
            }
        }
        Collections.sort(bodies);
        Events.print("pulled", "bodies", bodies);
    }

    /** Until the answer to a heartbeat has told the client the broker's version, it pulls by tags only. */
    private PullResult pulled(MessageQueue queue, MessageSelector selector, long offset) throws Exception {
        long deadline = System.nanoTime() + VERSION_NANOS;
        while (true) {
            try {
                return puller.pull(queue, selector, offset, BATCH);
            } catch (MQClientException e) {
                if (!String.valueOf(e.getErrorMessage()).contains("does not upgrade") || System.nanoTime() > deadline) {
                    throw e;
                }
                Thread.sleep(HEARTBEAT_MS);
            }
        }
    }

    private void push(String group, MessageSelector selector) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setInstanceName(group);
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, selector);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                Events.print("got", "group", group, "body", body(message), "properties",
                    new TreeMap<>(message.getProperties()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        pushing.add(consumer);
        consumer.start();
        Events.print("subscribed", "group", group);
    }

    private void leave() {
        for (DefaultMQPushConsumer consumer : pushing) {
            consumer.shutdown();
        }
        pushing.clear();
    }

    private static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
