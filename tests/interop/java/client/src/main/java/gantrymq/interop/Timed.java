package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends a message for each word of --plan, or takes one back: {@code ms:N} and {@code sec:N} with that delay, {@code at:N}
 * for N ms from now, {@code recall:N} with a delay of N ms and taken back at once, {@code handle:TEXT} takes back by a handle.
 * Needs client 5.3: what it calls is looked up by name, so that this compiles against 4.9.
 */
final class Timed {
    private final Options options;
    private final String topic;

    Timed(Options options) {
        this.options = options;
        this.topic = options.need("topic");
    }

    boolean run() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(options.text("group", "interop-timed"), Account.hook());
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setSendMsgTimeout(10_000);
        producer.start();
        int failed = 0;
        try {
            String[] words = options.need("plan").split(",");
            for (int i = 0; i < words.length; i++) {
                try {
                    done(producer, i, words[i].substring(0, words[i].indexOf(':')), words[i].substring(words[i].indexOf(':') + 1));
                } catch (java.lang.reflect.InvocationTargetException e) {
                    failed++;
                    Errors.print(i, e.getCause());
                } catch (Exception e) {
                    failed++;
                    Errors.print(i, e);
                }
            }
        } finally {
            producer.shutdown();
        }
        Events.print("done", "failed", failed);
        return true;
    }

    private void done(DefaultMQProducer producer, int index, String what, String value) throws Exception {
        if (what.equals("handle")) {
            recall(producer, index, value);
            return;
        }
        long asked = Long.parseLong(value);
        Message message = new Message(topic, (options.text("body-prefix", "timed") + '-' + index).getBytes(StandardCharsets.UTF_8));
        long now = System.currentTimeMillis();
        if (what.equals("sec")) {
            set(message, "setDelayTimeSec", asked);
        } else if (what.equals("at")) {
            set(message, "setDeliverTimeMs", now + asked);
        } else {
            set(message, "setDelayTimeMs", asked);
        }
        SendResult result = producer.send(message);
        long sentBy = System.currentTimeMillis(); // a delay counts from when the broker has the message
        String handle = (String) SendResult.class.getMethod("getRecallHandle").invoke(result);
        Map<String, Object> line = Events.fields("sent", "index", index, "topic", topic, "what", what, "msgId", result.getMsgId(),
            "status", result.getSendStatus().name(), "recallHandle", handle,
            "deliverMs", now + (what.equals("sec") ? asked * 1000 : asked),
            "deliverByMs", (what.equals("at") ? now : sentBy) + (what.equals("sec") ? asked * 1000 : asked));
        Events.addBody(line, message.getBody());
        Events.print(line);
        if (what.equals("recall")) {
            recall(producer, index, handle);
        }
    }

    private static void set(Message message, String method, long value) throws Exception {
        Message.class.getMethod(method, long.class).invoke(message, value);
    }

    private void recall(DefaultMQProducer producer, int index, String handle) throws Exception {
        Object id = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, topic, handle);
        Events.print("recalled", "index", index, "msgId", id);
    }
}
