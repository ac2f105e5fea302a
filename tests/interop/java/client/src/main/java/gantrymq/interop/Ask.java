package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Requests and replies: --clients producers, each with a client id of its own, ask --count questions each, one consumer
 * answers all of them with a body of --size bytes. Prints "reply" for what came back to whom, "answered" for what the
 * broker said of each answer, and "error". The form of the request is --mode sync or callback. With --to, one answer is
 * sent to that client id instead, and nothing is asked. With --namespace all of them live in one.
 */
final class Ask {
    private static final int TIMEOUT_MS = 15_000;
    private final Options options;
    private final String topic;
    private final DefaultMQProducer answering = new DefaultMQProducer("interop-answers");

    Ask(Options options) {
        this.options = options;
        this.topic = options.need("topic");
    }

    boolean run() throws Exception {
        start(answering, "answering");
        try {
            return options.has("to") ? answerNobody() : ask();
        } finally {
            answering.shutdown();
        }
    }

    private boolean ask() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic + "-answers");
        consumer.setNamesrvAddr(options.need("namesrv"));
        consumer.setInstanceName("answers");
        if (options.has("namespace")) {
            consumer.setNamespace(options.need("namespace"));
        }
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                answer(message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        int clients = options.number("clients", 1);
        int count = options.number("count", 1);
        CountDownLatch open = new CountDownLatch(clients * count);
        List<DefaultMQProducer> producers = new ArrayList<>();
        for (int each = 0; each < clients; each++) {
            DefaultMQProducer producer = new DefaultMQProducer("interop-questions");
            start(producer, "asking" + each);
            producers.add(producer);
        }
        for (int i = 0; i < count; i++) {
            for (int each = 0; each < clients; each++) {
                question(producers.get(each), each + ":" + i, open);
            }
        }
        boolean good = open.await(4L * TIMEOUT_MS, TimeUnit.MILLISECONDS);
        producers.forEach(DefaultMQProducer::shutdown);
        consumer.shutdown();
        Events.print("done", "failed", open.getCount());
        return good;
    }

    private void question(DefaultMQProducer producer, String text, CountDownLatch open) throws Exception {
        Message message = new Message(topic, "tag", text.getBytes(StandardCharsets.UTF_8));
        if (options.text("mode", "callback").equals("sync")) {
            try {
                reply(text, producer.request(message, TIMEOUT_MS));
            } catch (Exception e) {
                Errors.print(-1, e);
            }
            open.countDown();
            return;
        }
        // The form without a choice of queue calls back with null as soon as the question is stored (5.3.3).
        producer.request(message, (queues, asked, arg) -> queues.get(0), null, new RequestCallback() {
            @Override
            public void onSuccess(Message found) {
                reply(text, found);
                open.countDown();
            }

            @Override
            public void onException(Throwable e) {
                Errors.print(-1, e);
                open.countDown();
            }
        }, TIMEOUT_MS);
    }

    private void answer(MessageExt message) {
        try {
            StringBuilder body = new StringBuilder("re " + new String(message.getBody(), StandardCharsets.UTF_8));
            while (body.length() < options.number("size", 0)) {
                body.append('.');
            }
            Message reply = MessageUtil.createReplyMessage(message, body.toString().getBytes(StandardCharsets.UTF_8));
            answered(answering.send(reply, TIMEOUT_MS), reply);
        } catch (Exception e) {
            Errors.print(-1, e);
        }
    }

    private boolean answerNobody() throws Exception {
        Message reply = new Message(options.need("cluster") + "_REPLY_TOPIC", "for nobody".getBytes(StandardCharsets.UTF_8));
        MessageAccessor.putProperty(reply, "MSG_TYPE", "reply");
        MessageAccessor.putProperty(reply, "CORRELATION_ID", "none");
        MessageAccessor.putProperty(reply, "REPLY_TO_CLIENT", options.need("to"));
        MessageAccessor.putProperty(reply, "TTL", "3000");
        try {
            answered(answering.send(reply, TIMEOUT_MS), reply);
        } catch (Exception e) {
            Errors.print(-1, e.getCause() == null ? e : e.getCause()); // what the broker said stands in the cause
        }
        Events.print("done");
        return true;
    }

    private void start(DefaultMQProducer producer, String instance) throws Exception {
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setInstanceName(instance);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0);
        if (options.has("namespace")) {
            producer.setNamespace(options.need("namespace"));
        }
        producer.start();
    }

    private static void reply(String question, Message found) {
        Map<String, Object> line = Events.fields("reply", "question", question,
            "properties", found == null ? null : found.getProperties());
        if (found != null) {
            Events.addBody(line, found.getBody());
        }
        Events.print(line);
    }

    private static void answered(SendResult result, Message reply) {
        Events.print("answered", "status", result.getSendStatus().name(), "offsetMsgId", result.getOffsetMsgId(),
            "queueOffset", result.getQueueOffset(), "topic", reply.getTopic());
    }
}
