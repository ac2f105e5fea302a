package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends --count messages in one of the client's ways and prints what became of each. */
final class Produce {
    private static final int TIMEOUT_MS = 10_000;
    private final Options options;
    private final String topic;
    private final int count;
    private final AtomicInteger failed = new AtomicInteger();

    Produce(Options options) {
        this.options = options;
        this.topic = options.need("topic");
        this.count = options.number("count", 1);
    }

    boolean run() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(options.text("group", "interop-producer"), Account.hook());
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(options.number("retries", 2));
        producer.setPollNameServerInterval(options.number("poll-ms", producer.getPollNameServerInterval()));
        producer.start();
        try {
            if (options.has("pause-ms")) {
                sendUntilClosed(producer);
            } else {
                send(producer, messages());
            }
        } finally {
            producer.shutdown();
        }
        Events.print("done", "failed", failed.get());
        return failed.get() == 0;
    }

    private List<Message> messages() {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            messages.add(message(i));
        }
        return messages;
    }

    /** Send without an end, with a pause after each message, until standard input is closed. */
    private void sendUntilClosed(DefaultMQProducer producer) throws Exception {
        CountDownLatch closed = new CountDownLatch(1);
        Input.whenClosed(closed::countDown);
        for (int i = 0; !closed.await(options.number("pause-ms", 0), TimeUnit.MILLISECONDS); i++) {
            Message message = message(i);
            try {
                sent(i, message, producer.send(message));
            } catch (Exception e) {
                failed(i, e);
            }
        }
    }

    private Message message(int index) {
        StringBuilder body = new StringBuilder(options.text("body-prefix", "message")).append('-').append(index);
        while (body.length() < options.number("size", 0)) {
            body.append('.');
        }
        Message message = new Message(topic, body.toString().getBytes(StandardCharsets.UTF_8));
        if (options.has("tags")) {
            String[] tags = options.need("tags").split(",");
            message.setTags(tags[index % tags.length]);
        }
        if (options.has("levels")) {
            String[] levels = options.need("levels").split(",");
            message.setDelayTimeLevel(Integer.parseInt(levels[index % levels.length]));
        }
        if (options.has("keys-prefix")) {
            message.setKeys(options.need("keys-prefix") + index);
        }
        return message;
    }

    private void send(DefaultMQProducer producer, List<Message> messages) throws Exception {
        String mode = options.text("mode", "sync");
        if (mode.equals("async")) {
            sendAsync(producer, messages);
            return;
        }
        if (mode.equals("batch")) {
            sendBatches(producer, messages);
            return;
        }
        MessageQueue queue = mode.equals("queue") ? chosenQueue(producer) : null;
        for (int i = 0; i < messages.size(); i++) {
            Message message = messages.get(i);
            try {
                if (mode.equals("oneway")) {
                    producer.sendOneway(message);
                    sent(i, message, null);
                } else if (mode.equals("hash")) {
                    sent(i, message, producer.send(message, new SelectMessageQueueByHash(), message.getKeys()));
                } else if (queue != null) {
                    sent(i, message, producer.send(message, queue));
                } else {
                    sent(i, message, producer.send(message));
                }
            } catch (Exception e) {
                failed(i, e);
            }
        }
    }

    private void sendAsync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        CountDownLatch open = new CountDownLatch(messages.size());
        for (int i = 0; i < messages.size(); i++) {
            int index = i;
            Message message = messages.get(i);
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent(index, message, result);
                    open.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    failed(index, e);
                    open.countDown();
                }
            });
        }
        if (!open.await(3L * TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            failed(-1, new IllegalStateException(open.getCount() + " callbacks never came"));
        }
    }

    private void sendBatches(DefaultMQProducer producer, List<Message> messages) {
        int size = options.number("batch", 10);
        for (int from = 0; from < messages.size(); from += size) {
            List<Message> batch = messages.subList(from, Math.min(from + size, messages.size()));
            try {
                SendResult result = producer.send(batch);
                String[] ids = result.getMsgId().split(",");
                String[] offsetIds = result.getOffsetMsgId().split(",");
                for (int i = 0; i < batch.size(); i++) {
                    // An inner batch is one record with one id.
                    String id = ids[ids.length == 1 ? 0 : i];
                    String offsetId = offsetIds[offsetIds.length == 1 ? 0 : i];
                    print(from + i, batch.get(i), result, id, offsetId, result.getQueueOffset() + i);
                }
            } catch (Exception e) {
                for (int i = 0; i < batch.size(); i++) {
                    failed(from + i, e);
                }
            }
        }
    }

    private MessageQueue chosenQueue(DefaultMQProducer producer) throws Exception {
        int queueId = options.number("queue", 0);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        for (MessageQueue queue : queues) {
            if (queue.getQueueId() == queueId) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no queue " + queueId + " in " + Arrays.toString(queues.toArray()));
    }

    private void sent(int index, Message message, SendResult result) {
        if (result == null) {
            print(index, message, null, null, null, null);
        } else {
            print(index, message, result, result.getMsgId(), result.getOffsetMsgId(), result.getQueueOffset());
        }
    }

    private void failed(int index, Throwable e) {
        failed.incrementAndGet();
        Errors.print(index, e);
    }

    private void print(int index, Message message, SendResult result, String id, String offsetId, Long queueOffset) {
        Map<String, Object> line = Events.fields("sent", "index", index, "topic", topic, "tags", message.getTags(),
            "keys", message.getKeys(), "msgId", id, "offsetMsgId", offsetId, "queueOffset", queueOffset);
        if (result != null) {
            line.put("status", result.getSendStatus().name());
            line.put("brokerName", result.getMessageQueue().getBrokerName());
            line.put("queueId", result.getMessageQueue().getQueueId());
        }
        Events.addBody(line, message.getBody());
        Events.print(line);
    }
}
