package gantrymq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Runs clients of the official Java client for gRPC until standard input is closed: {@code Members HOST:PORT PREFIX}.
 * A push consumer, a simple consumer and a producer, as README.md describes.
 */
public final class Members {
    private static final Duration AWAIT = Duration.ofSeconds(20);
    private static final Duration INVISIBLE = Duration.ofSeconds(10);
    private static final long PAUSE_MS = 200;

    private Members() {
    }

    /** Runs the clients. */
    public static void main(String[] words) throws Exception {
        Events.claimOutput();
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration = ClientConfiguration.newBuilder().setEndpoints(words[0]).build();
        String topic = words[1] + "Push";
        Map<String, FilterExpression> all = Collections.singletonMap(topic, FilterExpression.SUB_ALL);
        SimpleConsumer simple = provider.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(words[1] + "simple").setSubscriptionExpressions(all).setAwaitDuration(AWAIT).build();
        Thread receiving = new Thread(() -> receive(simple));
        receiving.setDaemon(true);
        receiving.start();
        provider.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(words[1] + "push")
            .setSubscriptionExpressions(all).setMessageListener(view -> {
                received("push", view);
                return ConsumeResult.SUCCESS;
            }).build();
        Producer producer =
            provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        Events.print("started");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            byte[] body = new byte[Math.max(parts[0].length(), Integer.parseInt(parts[1]))];
            Arrays.fill(body, (byte) '.');
            byte[] text = parts[0].getBytes(StandardCharsets.UTF_8);
            System.arraycopy(text, 0, body, 0, text.length);
            Message message = provider.newMessageBuilder().setTopic(topic).setBody(body).build();
            try {
                Events.print("sent", "body", parts[0], "id", producer.send(message).getMessageId());
            } catch (Exception e) {
                Events.print("unsent", "body", parts[0], "error", e);
            }
        }
        System.exit(0); // without waiting for the end of open receives
    }

    private static void receive(SimpleConsumer consumer) {
        while (true) {
            try {
                for (MessageView each : consumer.receive(16, INVISIBLE)) {
                    received("simple", each);
                    consumer.ack(each);
                }
            } catch (Exception e) {
                Events.print("failed", "error", e);
                pause();
            }
        }
    }

    private static void received(String by, MessageView view) {
        String body = StandardCharsets.UTF_8.decode(view.getBody().duplicate()).toString();
        int end = body.indexOf('.');
        Events.print("received", "by", by, "body", end < 0 ? body : body.substring(0, end), "size", body.length(),
            "attempt", view.getDeliveryAttempt());
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
