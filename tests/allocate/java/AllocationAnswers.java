import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Asks the official client's allocation strategies and writes what they answer, one JSON object a line.
 *
 * Queues and members are chosen by java.util.Random from the seed given as the first argument; the second argument is
 * the number of cases for each strategy.
 */
public class AllocationAnswers {
    private static final String[] ROOMS = {"hz", "sh", "bj", "room1", "zürich", "上海"};
    private static final int[] VIRTUAL_NODES = {0, 1, 2, 5, 10, 10, 10, 37, 160};

    private final Random random;

    private AllocationAnswers(long seed) {
        this.random = new Random(seed);
    }

    public static void main(String[] args) {
        AllocationAnswers answers = new AllocationAnswers(Long.parseLong(args[0]));
        int cases = Integer.parseInt(args[1]);
        for (int i = 0; i < cases; i++) {
            answers.averagely(new AllocateMessageQueueAveragely());
            answers.averagely(new AllocateMessageQueueAveragelyByCircle());
            answers.consistentHash();
            answers.machineRoom();
            answers.nearby();
            answers.config();
        }
    }

    private void averagely(AllocateMessageQueueStrategy strategy) {
        ask(strategy, "", queues("broker-", ""), members(""));
    }

    private void consistentHash() {
        int nodes = VIRTUAL_NODES[random.nextInt(VIRTUAL_NODES.length)];
        AllocateMessageQueueStrategy strategy =
            nodes == 10 ? new AllocateMessageQueueConsistentHash() : new AllocateMessageQueueConsistentHash(nodes);
        String settings = nodes == 10 ? "" : member("virtual_nodes", String.valueOf(nodes));
        ask(strategy, settings, queues("broker-", ""), members(""));
    }

    private void machineRoom() {
        AllocateMessageQueueByMachineRoom strategy = new AllocateMessageQueueByMachineRoom();
        TreeSet<String> rooms = new TreeSet<>();
        for (int i = 0; i <= random.nextInt(3); i++) {
            rooms.add(room());
        }
        strategy.setConsumeridcs(new HashSet<>(rooms));
        ask(strategy, member("rooms", String.join(",", rooms)), queues("broker", "@"), members(""));
    }

    private void nearby() {
        AllocateMessageQueueStrategy inner;
        switch (random.nextInt(3)) {
            case 0:
                inner = new AllocateMessageQueueAveragely();
                break;
            case 1:
                inner = new AllocateMessageQueueAveragelyByCircle();
                break;
            default:
                inner = new AllocateMessageQueueConsistentHash();
        }
        AllocateMachineRoomNearby.MachineRoomResolver resolver = new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().substring(0, queue.getBrokerName().indexOf('-'));
            }

            @Override
            public String consumerDeployIn(String clientId) {
                return clientId.substring(0, clientId.indexOf('-'));
            }
        };
        ask(new AllocateMachineRoomNearby(inner, resolver), "", queues("broker", "-"), members("-"));
    }

    private void config() {
        List<MessageQueue> queues = queues("broker-", "");
        List<MessageQueue> chosen = new ArrayList<>();
        StringBuilder text = new StringBuilder();
        for (MessageQueue queue : queues) {
            if (random.nextInt(3) == 0) {
                chosen.add(queue);
                text.append(text.length() == 0 ? "" : ",");
                text.append(queue.getTopic() + "/" + queue.getBrokerName() + "/" + queue.getQueueId());
            }
        }
        AllocateMessageQueueByConfig strategy = new AllocateMessageQueueByConfig();
        strategy.setMessageQueueList(chosen);
        ask(strategy, member("queues", text.toString()), queues, members(""));
    }

    /** At least one queue, sorted, over up to five brokers; with a mark, most names have a room before it. */
    private List<MessageQueue> queues(String broker, String mark) {
        String topic = "Topic" + random.nextInt(1000);
        TreeSet<MessageQueue> queues = new TreeSet<>();
        int brokers = 1 + random.nextInt(5);
        for (int i = 0; i < brokers; i++) {
            String name = broker + (char) ('a' + i);
            if (mark.equals("-")) {
                name = room() + mark + name;
            } else if (mark.equals("@")) {
                switch (random.nextInt(8)) {
                    case 0:
                        break;
                    case 1:
                        name = room() + "@" + name + "@";
                        break;
                    case 2:
                        name = room() + "@" + name + "@x";
                        break;
                    case 3:
                        name = "@" + name;
                        break;
                    default:
                        name = room() + "@" + name;
                }
            }
            int count = 1 + random.nextInt(random.nextInt(10) == 0 ? 64 : 9);
            for (int id = 0; id < count; id++) {
                queues.add(new MessageQueue(topic, name, id));
            }
        }
        return new ArrayList<>(queues);
    }

    /** One to twelve client ids, sorted; now and then one of them is listed twice. */
    private List<String> members(String mark) {
        List<String> members = new ArrayList<>();
        int count = 1 + random.nextInt(12);
        for (int i = 0; i < count; i++) {
            String id = "10.0.0." + random.nextInt(250) + "@" + random.nextInt(100);
            members.add((mark.isEmpty() ? "" : room() + mark) + id + (random.nextInt(20) == 0 ? "@ünit" : ""));
        }
        if (random.nextInt(15) == 0) {
            members.add(members.get(0));
        }
        Collections.sort(members);
        return members;
    }

    private String room() {
        return ROOMS[random.nextInt(ROOMS.length)];
    }

    private static void ask(
        AllocateMessageQueueStrategy strategy, String settings, List<MessageQueue> queues, List<String> members) {
        StringBuilder line = new StringBuilder();
        line.append("{\"strategy\":").append(quoted(strategy.getName()));
        line.append(",\"settings\":{").append(settings).append("},\"topic\":").append(quoted(queues.get(0).getTopic()));
        line.append(",\"queues\":[");
        for (int i = 0; i < queues.size(); i++) {
            MessageQueue queue = queues.get(i);
            boolean next = i + 1 == queues.size() || !queues.get(i + 1).getBrokerName().equals(queue.getBrokerName());
            if (next) {
                line.append("[").append(quoted(queue.getBrokerName())).append(",").append(queue.getQueueId() + 1);
                line.append(i + 1 == queues.size() ? "]" : "],");
            }
        }
        line.append("],\"members\":[");
        for (int i = 0; i < members.size(); i++) {
            line.append(i == 0 ? "" : ",").append(quoted(members.get(i)));
        }
        line.append("],\"answers\":[");
        for (int i = 0; i < members.size(); i++) {
            List<Integer> places = new ArrayList<>();
            for (MessageQueue queue : strategy.allocate("group", members.get(i), queues, members)) {
                places.add(queues.indexOf(queue));
            }
            line.append(i == 0 ? "" : ",").append(places.toString().replace(" ", ""));
        }
        System.out.println(line.append("]}"));
    }

    private static String member(String key, String value) {
        return quoted(key) + ":" + quoted(value);
    }

    private static String quoted(String text) {
        return "\"" + text + "\"";
    }
}
