package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageQueue;

/** The steps of a script that a producer does. */
final class Sending {
    private static final int TIMEOUT_MS = 10_000;

    private Sending() {
    }

    static void run(DefaultMQProducer producer, String verb, Options options) throws Exception {
        switch (verb) {
            case "send":
                sendOne(producer, message(options, options.need("body")), options);
                break;
            case "batch":
                List<Message> batch = new ArrayList<>();
                for (int i = 0; i < options.number("count", 1); i++) {
                    batch.add(message(options, options.need("body") + "-" + i));
                }
                print(options, options.has("queue") ? producer.send(batch, queue(producer, options))
                    : producer.send(batch));
                break;
            case "transaction":
                print(options, ((TransactionMQProducer) producer).sendMessageInTransaction(
                    message(options, options.need("body")), options.need("decide")));
                break;
            case "recall":
                Events.print("recalled", "id", producer.recallMessage(options.need("topic"), options.need("handle")));
                break;
            case "ask":
                ask(producer, options);
                break;
            default:
                throw new IllegalArgumentException("no such step: " + verb);
        }
    }

    private static void sendOne(DefaultMQProducer producer, Message message, Options options) throws Exception {
        MessageQueue queue = options.has("queue") ? queue(producer, options) : null;
        if (options.has("oneway")) {
            if (queue == null) {
                producer.sendOneway(message);
            } else {
                producer.sendOneway(message, queue);
            }
            return;
        }
        print(options, queue == null ? producer.send(message, TIMEOUT_MS) : producer.send(message, queue, TIMEOUT_MS));
    }

    private static void ask(DefaultMQProducer producer, Options options) throws Exception {
        try {
            Message answer = producer.request(message(options, options.need("body")), options.number("wait-ms", 5_000));
            Events.print("answer", "body", new String(answer.getBody(), StandardCharsets.UTF_8),
                "properties", answer.getProperties());
        } catch (Exception e) {
            Errors.print(-1, e);
        }
    }

    private static MessageQueue queue(DefaultMQProducer producer, Options options) throws Exception {
        for (MessageQueue queue : producer.fetchPublishMessageQueues(options.need("topic"))) {
            if (queue.getQueueId() == options.number("queue", 0)) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no queue " + options.number("queue", 0));
    }

    private static Message message(Options options, String body) {
        Message message = new Message(options.need("topic"), body.getBytes(StandardCharsets.UTF_8));
        message.setFlag(options.number("flag", 0));
        if (options.has("tags")) {
            message.setTags(options.need("tags"));
        }
        if (options.has("keys")) {
            message.setKeys(options.need("keys"));
        }
        if (options.has("level")) {
            message.setDelayTimeLevel(options.number("level", 0));
        }
        if (options.has("properties")) {
            for (String pair : options.need("properties").split(",")) {
                int equals = pair.indexOf('=');
                MessageAccessor.putProperty(message, pair.substring(0, equals), pair.substring(equals + 1));
            }
        }
        return message;
    }

    private static void print(Options options, SendResult result) {
        Map<String, Object> line = Events.fields("sent", "topic", options.need("topic"), "body", options.need("body"),
            "status", result.getSendStatus().name(), "queueId", result.getMessageQueue().getQueueId(),
            "queueOffset", result.getQueueOffset(), "msgId", result.getMsgId(),
            "offsetMsgId", result.getOffsetMsgId(), "handle", result.getRecallHandle());
        Events.print(line);
    }
}
