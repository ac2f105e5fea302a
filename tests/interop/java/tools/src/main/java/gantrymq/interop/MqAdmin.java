package gantrymq.interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * The official admin tool, command after command in one process, beside clients for it to find. Reads lines of fields
 * separated by tabs, and answers each with one JSON object:
 *
 * <pre>
 * live NAMESRV TOPIC                    a producer PG_live (p1), consumers CG_live (c2) and CG_live_orderly (c3)
 * send TOPIC BROKER QUEUE TAG KEY BODY  one message of that producer; the body in base64
 * run COMMAND ARGUMENT...               a command of mqadmin; "text" is what it wrote
 * </pre>
 */
public final class MqAdmin {
    private static final PrintStream REAL_OUT = System.out;
    private static DefaultMQProducer producer;

    private MqAdmin() {
    }

    public static void main(String[] args) throws Exception {
        Events.claimOutput();
        Leaving.quickly();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            String[] rest = Arrays.copyOfRange(fields, 1, fields.length);
            switch (fields[0]) {
                case "live":
                    live(rest[0], rest[1]);
                    Events.print("live");
                    break;
                case "send":
                    send(rest);
                    Events.print("sent");
                    break;
                default:
                    Events.print("ran", "text", run(rest));
            }
        }
        REAL_OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void live(String namesrv, String topic) throws Exception {
        producer = new DefaultMQProducer("PG_live");
        producer.setNamesrvAddr(namesrv);
        producer.setClientIP("127.0.0.1");
        producer.setInstanceName("p1");
        producer.start();
        DefaultMQPushConsumer tagged = consumer("CG_live", "c2", namesrv);
        tagged.subscribe(topic, "TagA || TagB");
        tagged.registerMessageListener(
            (MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        tagged.start();
        DefaultMQPushConsumer orderly = consumer("CG_live_orderly", "c3", namesrv);
        orderly.subscribe(topic, "*");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> ConsumeOrderlyStatus.SUCCESS);
        orderly.start();
    }

    private static DefaultMQPushConsumer consumer(String group, String instance, String namesrv) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    private static void send(String[] fields) throws Exception {
        Message message = new Message(fields[0], fields[3], fields[4], Base64.getDecoder().decode(fields[5]));
        producer.send(message, new MessageQueue(fields[0], fields[1], Integer.parseInt(fields[2])));
    }

    private static String run(String[] command) throws Exception {
        forgetCommands();
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        PrintStream before = System.err;
        PrintStream capture = new PrintStream(written, true, StandardCharsets.UTF_8);
        System.setOut(capture);
        System.setErr(capture);
        try {
            MQAdminStartup.main0(command, null);
        } finally {
            System.setOut(before);
            System.setErr(before);
        }
        return written.toString(StandardCharsets.UTF_8);
    }

    /** The tool adds all its commands to a list each time it starts, and prints the list when asked for nothing. */
    private static void forgetCommands() throws Exception {
        for (Field list : MQAdminStartup.class.getDeclaredFields()) { // its name differs between versions
            if (list.getType() == List.class) {
                list.setAccessible(true);
                ((List<?>) list.get(null)).clear();
            }
        }
    }
}
