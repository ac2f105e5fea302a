package org.apache.rocketmq.test.base;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.test.util.MQAdminTestUtils;
import org.apache.rocketmq.test.util.MQRandomUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * In place of the tests' class of this name, which starts a name server and three brokers in this process: the servers
 * that run already, whose name server is in the property rocketmq.namesrv.addr. The groups that the tests change
 * are changed by requests; the settings that they change must be those of the brokers.
 */
public class BaseConf {
    public static final String NAMESRV_ADDR = System.getProperty("rocketmq.namesrv.addr");

    protected static final int BROKER_NUM = 3;
    protected static final int QUEUE_NUMBERS = 8;

    protected static final List<RunningBroker> brokerControllerList;
    protected static final RunningBroker brokerController1;
    protected static final RunningBroker brokerController2;
    protected static final RunningBroker brokerController3;
    protected static final String BROKER1_NAME;

    private static final DefaultMQAdminExt ADMIN = new DefaultMQAdminExt();

    static {
        try {
            ADMIN.setNamesrvAddr(NAMESRV_ADDR);
            ADMIN.start();
            Map<String, BrokerData> brokers = new TreeMap<>(ADMIN.examineBrokerClusterInfo().getBrokerAddrTable());
            brokerControllerList = brokers.values().stream().map(RunningBroker::new).collect(Collectors.toList());
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        brokerController1 = brokerControllerList.get(0);
        brokerController2 = brokerControllerList.get(1);
        brokerController3 = brokerControllerList.get(2);
        BROKER1_NAME = brokerController1.config.getBrokerName();
    }

    public static String initTopic() {
        return initTopic(TopicMessageType.NORMAL);
    }

    public static String initTopic(TopicMessageType type) {
        return initTopicOnSampleTopicBroker(brokerController1.config.getBrokerClusterName(), type);
    }

    public static String initTopicOnSampleTopicBroker(String sampleTopic) {
        return initTopicOnSampleTopicBroker(sampleTopic, TopicMessageType.NORMAL);
    }

    /** Create a topic on the brokers that have the topic <i>sampleTopic</i>: its name is that of a broker or cluster. */
    public static String initTopicOnSampleTopicBroker(String sampleTopic, TopicMessageType type) {
        String topic = MQRandomUtils.getRandomTopic();
        Map<String, String> attributes = new HashMap<>();
        if (type != TopicMessageType.NORMAL) {
            attributes.put("+message.type", type.toString());
        }
        MQAdminTestUtils.createTopic(NAMESRV_ADDR, sampleTopic, topic, QUEUE_NUMBERS, attributes);
        return topic;
    }

    /** The tests start no client that must be ended here. */
    public static void shutdown() {
    }

    /** A broker that runs already. */
    public static final class RunningBroker {
        private final String address;
        private final BrokerConfig config = new BrokerConfig(); // only names it; settings are those that it started with
        private final Groups groups = new Groups();

        RunningBroker(BrokerData broker) {
            address = broker.selectBrokerAddr();
            config.setBrokerName(broker.getBrokerName());
            config.setBrokerClusterName(broker.getCluster());
        }

        public BrokerConfig getBrokerConfig() {
            return config;
        }

        public Groups getSubscriptionGroupManager() {
            return groups;
        }

        /** The groups of the broker. */
        public final class Groups {
            /** A Java broker creates an unknown group here; ours does with the first request for it. */
            public SubscriptionGroupConfig findSubscriptionGroupConfig(String group) {
                SubscriptionGroupConfig config = new SubscriptionGroupConfig();
                config.setGroupName(group);
                return config;
            }

            public void updateSubscriptionGroupConfig(SubscriptionGroupConfig config) {
                try {
                    ADMIN.createAndUpdateSubscriptionGroupConfig(address, config);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }
}
