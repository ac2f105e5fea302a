package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends one by one from --threads threads until standard input is closed, whatever fails meanwhile. With --mode queue
 * each thread has a queue of its own and sends a message once; otherwise the client chooses, and sends again elsewhere.
 * A body is prefix-thread-index, with dots up to --size; the lines are short, as there are many.
 */
final class Stream {
    private final Options options;
    private final String topic;
    private final CountDownLatch end = new CountDownLatch(1);

    Stream(Options options) {
        this.options = options;
        this.topic = options.need("topic");
    }

    boolean run() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(options.text("group", "interop-stream"));
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setInstanceName(options.text("body-prefix", "stream"));
        producer.setSendMsgTimeout(options.number("timeout-ms", 3000));
        producer.setRetryTimesWhenSendFailed(options.number("retries", 2));
        producer.setPollNameServerInterval(options.number("poll-ms", producer.getPollNameServerInterval()));
        producer.start();
        Input.whenClosed(end::countDown);
        boolean chosen = options.text("mode", "any").equals("queue");
        List<MessageQueue> queues = chosen ? producer.fetchPublishMessageQueues(topic) : null;
        Thread[] threads = new Thread[options.number("threads", 1)];
        for (int i = 0; i < threads.length; i++) {
            int number = i;
            MessageQueue queue = chosen ? queues.get(i) : null;
            threads[i] = new Thread(() -> send(producer, number, queue));
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        producer.shutdown();
        Events.print("done");
        return true;
    }

    private void send(DefaultMQProducer producer, int thread, MessageQueue queue) {
        try {
            for (int i = 0; !end.await(options.number("pause-ms", 0), TimeUnit.MILLISECONDS); i++) {
                StringBuilder body = new StringBuilder(options.text("body-prefix", "stream"));
                body.append('-').append(thread).append('-').append(i);
                while (body.length() < options.number("size", 0)) {
                    body.append('.');
                }
                Message message = new Message(topic, body.toString().getBytes(StandardCharsets.UTF_8));
                try {
                    sent(thread, i, queue == null ? producer.send(message) : producer.send(message, queue));
                } catch (InterruptedException e) {
                    throw e;
                } catch (Exception e) {
                    failed(thread, i, e);
                    end.await(options.number("rest-ms", 100), TimeUnit.MILLISECONDS);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void sent(int thread, int index, SendResult result) {
        MessageQueue queue = result.getMessageQueue();
        Events.print("sent", "t", thread, "i", index, "status", result.getSendStatus().name(),
            "b", queue.getBrokerName(), "q", queue.getQueueId(), "o", result.getQueueOffset());
    }

    private static void failed(int thread, int index, Exception e) {
        Integer code = e instanceof MQBrokerException ? Integer.valueOf(((MQBrokerException) e).getResponseCode())
            : e instanceof MQClientException ? Integer.valueOf(((MQClientException) e).getResponseCode()) : null;
        Events.print("failed", "t", thread, "i", index, "class", e.getClass().getSimpleName(), "code", code,
            "message", e.getMessage());
    }
}
