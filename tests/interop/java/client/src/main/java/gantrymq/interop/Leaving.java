package gantrymq.interop;

import java.util.Arrays;
import java.util.Map;

/**
 * Shortens the end of a client: its thread for connection events looks every 3 s whether it is to end, and shutdown()
 * waits for that. Here it is woken, by an interrupt, as soon as somebody waits.
 */
final class Leaving {
    private static final String EVENT_THREAD = "NettyEventExecutor";
    private static final int POLL_MS = 100;

    private Leaving() {
    }

    static void quickly() {
        Thread thread = new Thread(Leaving::watch, "leaving");
        thread.setDaemon(true);
        thread.start();
    }

    private static void watch() {
        while (true) {
            Map<Thread, StackTraceElement[]> stacks = Thread.getAllStackTraces();
            if (stacks.values().stream().anyMatch(Leaving::waitsForAService)) {
                stacks.forEach((thread, stack) -> {
                    if (thread.getName().startsWith(EVENT_THREAD) && has(stack, "LinkedBlockingQueue", "poll")) {
                        thread.interrupt();
                    }
                });
            }
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private static boolean waitsForAService(StackTraceElement[] stack) {
        return has(stack, "Thread", "join") && has(stack, "ServiceThread", "shutdown");
    }

    private static boolean has(StackTraceElement[] stack, String type, String method) {
        return Arrays.stream(stack).anyMatch(
            each -> each.getClassName().endsWith("." + type) && each.getMethodName().equals(method));
    }
}
