package gantrymq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Load of the official client for gRPC: {@code SdkLoad HOST:PORT TOPIC}. Commands on standard input, one per line, each
 * answered by an event "measured": {@code send COUNT WARMUP IN_FLIGHT SIZE} or
 * {@code receive GROUP COUNT WARMUP IN_FLIGHT MOST}. An event "warm" follows the warm-up of each.
 */
public final class SdkLoad {
    private static final Duration AWAIT = Duration.ofSeconds(5);
    private static final Duration INVISIBLE = Duration.ofMinutes(1);

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final String topic;
    private final Producer producer;

    private SdkLoad(String endpoint, String topic) throws Exception {
        this.topic = topic;
        configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(false).build();
        producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
    }

    /** One measurement: operations that started after the warm-up count. */
    private static final class Measurement {
        private final long warmup;
        private final long[] micros;
        private final AtomicLong ended = new AtomicLong();
        private final AtomicLong failed = new AtomicLong();
        private final CompletableFuture<Long> end = new CompletableFuture<>();
        private final CompletableFuture<Long> warm = new CompletableFuture<>();

        Measurement(int count, int warmup) {
            this.warmup = warmup;
            micros = new long[count];
        }

        boolean over() {
            return end.isDone();
        }

        /** Counts *messages* of an operation that began at *began*. */
        void add(long began, int messages) {
            long now = System.nanoTime();
            long after = ended.addAndGet(messages);
            for (long i = after - messages; i < Math.min(after, micros.length); i++) {
                micros[(int) i] = (now - began) / 1000;
            }
            if (after >= warmup && warm.complete(now)) {
                Events.print("warm");
            }
            if (after >= micros.length) {
                end.complete(now);
            }
        }

        void print() throws Exception {
            double seconds = (end.get() - warm.get()) / 1e9;
            long[] counted = Arrays.copyOfRange(micros, (int) warmup, micros.length);
            Arrays.sort(counted);
            Events.print("measured", "perSecond", counted.length / seconds, "messages", counted.length, "failed",
                failed.get(), "p50Us", counted[counted.length / 2], "p99Us", counted[counted.length * 99 / 100]);
        }
    }

    public static void main(String[] words) throws Exception {
        Events.claimOutput();
        SdkLoad load = new SdkLoad(words[0], words[1]);
        Events.print("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] command = line.split(" ");
            int[] numbers = Arrays.stream(command).filter(each -> each.matches("\\d+")).mapToInt(Integer::parseInt).toArray();
            Measurement measured = new Measurement(numbers[0], numbers[1]);
            if (command[0].equals("send")) {
                load.send(measured, numbers[2], new byte[numbers[3]]);
            } else {
                load.receive(measured, command[1], numbers[2], numbers[3]);
            }
            measured.print();
        }
        System.exit(0);
    }

    private void send(Measurement measured, int inFlight, byte[] body) throws Exception {
        CountDownLatch over = new CountDownLatch(inFlight);
        for (int i = 0; i < inFlight; i++) {
            sendNext(measured, body, over);
        }
        over.await();
    }

    private void sendNext(Measurement measured, byte[] body, CountDownLatch over) {
        if (measured.over()) {
            over.countDown();
            return;
        }
        long began = System.nanoTime();
        producer.sendAsync(provider.newMessageBuilder().setTopic(topic).setBody(body).build())
            .whenComplete((receipt, problem) -> {
                if (problem == null) {
                    measured.add(began, 1);
                } else {
                    measured.failed.incrementAndGet();
                }
                sendNext(measured, body, over);
            });
    }

    /** Receives that acknowledge each message before the next receive begins; a new group reads the topic's start. */
    private void receive(Measurement measured, String group, int inFlight, int most) throws Exception {
        try (SimpleConsumer consumer = provider.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setAwaitDuration(AWAIT).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build()) {
            CountDownLatch over = new CountDownLatch(inFlight);
            for (int i = 0; i < inFlight; i++) {
                receiveNext(measured, consumer, most, over);
            }
            over.await();
        }
    }

    private void receiveNext(Measurement measured, SimpleConsumer consumer, int most, CountDownLatch over) {
        if (measured.over()) {
            over.countDown();
            return;
        }
        long began = System.nanoTime();
        consumer.receiveAsync(most, INVISIBLE).thenCompose(views -> acknowledged(consumer, views))
            .whenComplete((count, problem) -> {
                if (problem == null) {
                    measured.add(began, count);
                } else {
                    measured.failed.incrementAndGet();
                }
                receiveNext(measured, consumer, most, over);
            });
    }

    private static CompletableFuture<Integer> acknowledged(SimpleConsumer consumer, List<MessageView> views) {
        List<CompletableFuture<Void>> acks = new ArrayList<>();
        for (MessageView view : views) {
            acks.add(consumer.ackAsync(view));
        }
        return CompletableFuture.allOf(acks.toArray(new CompletableFuture[0])).thenApply(none -> views.size());
    }
}
