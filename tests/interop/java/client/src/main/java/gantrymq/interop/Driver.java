package gantrymq.interop;

import java.util.Arrays;

/**
 * Drives the official client from a test:
 * {@code Driver produce|push|pull|stream|follow|transact|ask|exchange|read|select|bench-send|bench-drain
 * --namesrv HOST:PORT ...}. See the README of the interop tests for the options. Compiles against client 4.9 and 5.x.
 */
public final class Driver {
    private Driver() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            System.err.println(
                "usage: Driver produce|push|pull|stream|follow|transact|ask|exchange|read|select|bench-send|bench-drain "
                    + "--namesrv HOST:PORT --topic T ...");
            System.exit(2);
        }
        Events.claimOutput();
        if (!args[0].startsWith("bench-")) {
            Leaving.quickly();
        }
        Options options = new Options(args, 1);
        boolean good;
        switch (args[0]) {
            case "produce":
                good = new Produce(options).run();
                break;
            case "push":
                good = new Push(options).run();
                break;
            case "pull":
                good = new Pull(options).run();
                break;
            case "stream":
                good = new Stream(options).run();
                break;
            case "follow":
                good = new Follow(options).run();
                break;
            case "transact":
                good = new Transact(options).run();
                break;
            case "disagree":
                good = new Disagree(options).run();
                break;
            case "retry":
                good = new Retry(options).run();
                break;
            case "ask":
                good = new Ask(options).run();
                break;
            case "exchange":
                good = new Exchange(options).run();
                break;
            case "read":
                good = new Read(options).run();
                break;
            case "select":
                good = new Select(options).run();
                break;
            case "timed":
                good = new Timed(options).run();
                break;
            case "decide":
                good = new Decide(options).run();
                break;
            case "bench-send":
                good = new Load(options).run();
                break;
            case "bench-drain":
                good = new Drain(options).run();
                break;
            default:
                throw new IllegalArgumentException("no such command: " + Arrays.toString(args));
        }
        // The client leaves threads behind that are no daemons; do not wait for them.
        System.exit(good ? 0 : 1);
    }
}
