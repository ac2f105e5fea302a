package gantrymq.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Drives the official client from a test:
 * {@code Driver produce|push|pull|stream|follow|transact|ask|exchange|read|select|bench-send|bench-drain
 * --namesrv HOST:PORT ...}. See the README of the interop tests for the options. Compiles against client 4.9 and 5.x.
 * {@code Driver serve} runs the commands on standard input, one per line with tabs between the words, one after another.
 */
public final class Driver {
    private Driver() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            System.err.println(
                "usage: Driver produce|push|pull|stream|follow|transact|ask|exchange|read|select|bench-send|bench-drain "
                    + "--namesrv HOST:PORT --topic T ..., or Driver serve");
            System.exit(2);
        }
        Events.claimOutput();
        if (!args[0].startsWith("bench-")) {
            Leaving.quickly();
        }
        if (args[0].equals("serve")) {
            serve();
            return;
        }
        boolean good = run(args);
        // The client leaves threads behind that are no daemons; do not wait for them.
        System.exit(good ? 0 : 1);
    }

    private static void serve() throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            boolean good = false;
            try {
                good = run(line.split("\t", -1));
            } catch (Exception e) {
                e.printStackTrace();
            }
            Events.print("ended", "good", good);
        }
        System.exit(0);
    }

    private static boolean run(String[] args) throws Exception {
        Options options = new Options(args, 1);
        switch (args[0]) {
            case "produce":
                return new Produce(options).run();
            case "push":
                return new Push(options).run();
            case "pull":
                return new Pull(options).run();
            case "stream":
                return new Stream(options).run();
            case "follow":
                return new Follow(options).run();
            case "transact":
                return new Transact(options).run();
            case "disagree":
                return new Disagree(options).run();
            case "retry":
                return new Retry(options).run();
            case "ask":
                return new Ask(options).run();
            case "exchange":
                return new Exchange(options).run();
            case "read":
                return new Read(options).run();
            case "select":
                return new Select(options).run();
            case "timed":
                return new Timed(options).run();
            case "decide":
                return new Decide(options).run();
            case "bench-send":
                return new Load(options).run();
            case "bench-drain":
                return new Drain(options).run();
            default:
                throw new IllegalArgumentException("no such command: " + Arrays.toString(args));
        }
    }
}
