package gantrymq.interop;

import org.apache.rocketmq.remoting.RPCHook;

/** The client's hook that signs requests, with the keys in the properties interop.accessKey and interop.secretKey. */
final class Account {
    private static final String PACKAGE = "org.apache.rocketmq.acl.common.";

    private Account() {
    }

    /** The hook, or null without keys. Clients of 4.9 have it in a separate artifact, so it is looked up by name. */
    static RPCHook hook() throws ReflectiveOperationException {
        String key = System.getProperty("interop.accessKey");
        if (key == null) {
            return null;
        }
        Class<?> credentials = Class.forName(PACKAGE + "SessionCredentials");
        Object session = credentials.getConstructor(String.class, String.class)
            .newInstance(key, System.getProperty("interop.secretKey"));
        return (RPCHook) Class.forName(PACKAGE + "AclClientRPCHook").getConstructor(credentials).newInstance(session);
    }
}
