package gantrymq.interop;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends without pause from --threads threads and prints the rate and the latencies after a warm-up. With --transactional
 * each message is sent in a transaction that is committed at once, and counts when the commit is on its way; with
 * --delay-level each message asks for that level.
 */
final class Load {
    private final Options options;
    private final String topic;
    private final byte[] body;
    private final int delayLevel;
    private volatile boolean measuring;
    private volatile boolean running = true;

    Load(Options options) {
        this.options = options;
        this.topic = options.need("topic");
        this.body = new byte[options.number("size", 1024)];
        this.delayLevel = options.number("delay-level", 0);
        Arrays.fill(body, (byte) 'x');
    }

    boolean run() throws Exception {
        String group = options.text("group", "interop-load");
        DefaultMQProducer producer = options.has("transactional") ? committing(group) : new DefaultMQProducer(group);
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setSendMsgTimeout(10_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        Sender[] senders = new Sender[options.number("threads", 1)];
        for (int i = 0; i < senders.length; i++) {
            senders[i] = new Sender(producer);
            senders[i].start();
        }
        TimeUnit.SECONDS.sleep(options.number("warmup", 20));
        measuring = true;
        long begin = System.nanoTime();
        TimeUnit.SECONDS.sleep(options.number("seconds", 20));
        measuring = false;
        double seconds = (System.nanoTime() - begin) / 1e9;
        running = false;
        for (Sender sender : senders) {
            sender.join();
        }
        producer.shutdown();
        return report(senders, seconds);
    }

    private static TransactionMQProducer committing(String group) {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return producer;
    }

    private boolean report(Sender[] senders, double seconds) {
        int errors = 0;
        int total = 0;
        String firstError = null;
        for (Sender sender : senders) {
            errors += sender.errors;
            total += sender.count;
            firstError = firstError == null ? sender.firstError : firstError;
        }
        long[] nanos = new long[total];
        int at = 0;
        for (Sender sender : senders) {
            System.arraycopy(sender.nanos, 0, nanos, at, sender.count);
            at += sender.count;
        }
        Arrays.sort(nanos);
        Events.print("load", "threads", senders.length, "size", body.length, "seconds", seconds, "sends", total,
            "sendsPerSecond", total / seconds, "p50Ms", millis(nanos, 0.50), "p99Ms", millis(nanos, 0.99),
            "maxMs", millis(nanos, 1.0), "errors", errors, "firstError", firstError);
        return errors == 0 && total > 0;
    }

    private static Double millis(long[] sorted, double share) {
        return sorted.length == 0 ? null
            : Double.valueOf(sorted[(int) Math.min(sorted.length - 1L, (long) (share * sorted.length))] / 1e6);
    }

    /** One thread; its figures are read only after it has ended. */
    private final class Sender extends Thread {
        private final DefaultMQProducer producer;
        private long[] nanos = new long[1 << 12];
        private int count;
        private int errors;
        private String firstError;

        Sender(DefaultMQProducer producer) {
            this.producer = producer;
        }

        @Override
        public void run() {
            while (running) {
                long begin = System.nanoTime();
                String error = send();
                long took = System.nanoTime() - begin;
                if (!measuring) {
                    continue;
                }
                if (error == null) {
                    add(took);
                } else {
                    errors++;
                    firstError = firstError == null ? error : firstError;
                }
            }
        }

        private String send() {
            try {
                Message message = new Message(topic, body);
                if (delayLevel > 0) {
                    message.setDelayTimeLevel(delayLevel);
                }
                SendResult result = producer instanceof TransactionMQProducer
                    ? producer.sendMessageInTransaction(message, null) : producer.send(message);
                return result.getSendStatus() == SendStatus.SEND_OK ? null : result.getSendStatus().name();
            } catch (Exception e) {
                return e.toString();
            }
        }

        private void add(long took) {
            if (count == nanos.length) {
                nanos = Arrays.copyOf(nanos, 2 * count);
            }
            nanos[count++] = took;
        }
    }
}
