package gantrymq.interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer and a push consumer of one topic: --count messages are sent and received. With --trace both write traces,
 * with --namespace NAME (and --v2, client 5) both live in a namespace. Prints "sent" and "received". With --trace they
 * stay until standard input is closed.
 */
final class Exchange {
    private static final int WAIT_S = 60;
    private final Options options;

    Exchange(Options options) {
        this.options = options;
    }

    boolean run() throws Exception {
        String topic = options.need("topic");
        int count = options.number("count", 1);
        CountDownLatch open = new CountDownLatch(count);
        boolean trace = options.has("trace");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.need("group"), trace, null);
        prepare(consumer, options);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                Received.print(message);
                open.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer =
            new DefaultMQProducer(trace ? "interop-traced" : "interop-exchange", trace, null);
        prepare(producer, options);
        producer.start();
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, "tag", "key" + i, ("message-" + i).getBytes(StandardCharsets.UTF_8));
            SendResult result = producer.send(message);
            Map<String, Object> line = Events.fields("sent", "index", i, "msgId", result.getMsgId(),
                "offsetMsgId", result.getOffsetMsgId(), "status", result.getSendStatus().name(),
                "queueTopic", result.getMessageQueue().getTopic());
            Events.print(line);
        }
        consumer.start();
        boolean good = open.await(WAIT_S, TimeUnit.SECONDS);
        if (trace) { // a client 4.9 that leaves may lose the traces that wait
            CountDownLatch closed = new CountDownLatch(1);
            Input.whenClosed(closed::countDown);
            closed.await();
        }
        producer.shutdown();
        consumer.shutdown();
        Events.print("done", "failed", open.getCount());
        return good;
    }

    /** Name servers and namespace; setNamespaceV2 came with client 5.1, so it is looked up. */
    static void prepare(ClientConfig client, Options options) throws ReflectiveOperationException {
        client.setNamesrvAddr(options.need("namesrv"));
        if (options.has("namespace")) {
            String setter = options.has("v2") ? "setNamespaceV2" : "setNamespace";
            Method method = ClientConfig.class.getMethod(setter, String.class);
            method.invoke(client, options.need("namespace"));
        }
    }
}
