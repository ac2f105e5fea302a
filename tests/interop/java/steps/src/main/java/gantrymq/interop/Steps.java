package gantrymq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Does one step of a script after the other, as standard input names them, with the official client 5.3.3:
 * {@code Steps HOST:PORT}. A step is a line, a verb and its options without blanks in them:
 *
 * <pre>
 * producer    --name P --group G --topic T [--transactional] [--answers unknown,commit] [--trace]
 * send        --by P --topic T --body B [--queue Q] [--tags A] [--keys K] [--flag N] [--level L] [--oneway]
 *             [--properties NAME=VALUE,...]
 * batch       --by P --topic T --body B --count N [--queue Q] [--tags A] [--properties NAME=VALUE,...]
 * transaction --by P --topic T --body B --decide commit|rollback|unknown [--tags A] [--keys K]
 * recall      --by P --topic T --handle H
 * ask         --by P --topic T --body B [--wait-ms MS]
 * consumer    --name C --group G --topic T [--sub A] [--model broadcasting] [--orderly] [--pop] [--fail TIMES]
 *             [--next-level L] [--max-reconsume N] [--answer-from P] [--trace]
 * stop        --name N, or all that run without it
 * </pre>
 *
 * Prints what was sent, received, asked and answered, and "did" after each step.
 */
public final class Steps {
    private Steps() {
    }

    public static void main(String[] args) throws Exception {
        Events.claimOutput();
        Leaving.quickly();
        Clients clients = new Clients(args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Events.print("started");
        String line;
        for (int number = 0; (line = lines.readLine()) != null; number++) {
            String[] words = line.split(" ");
            try {
                run(clients, words[0], new Options(words, 1));
            } catch (Exception e) {
                Errors.print(number, e);
            }
            Events.print("did", "number", number, "verb", words[0]);
        }
        System.exit(0);
    }

    private static void run(Clients clients, String verb, Options options) throws Exception {
        switch (verb) {
            case "producer":
                clients.startProducer(options);
                break;
            case "consumer":
                clients.startConsumer(options);
                break;
            case "stop":
                clients.stop(options.text("name", ""));
                break;
            default:
                Sending.run(clients.producer(options.need("by")), verb, options);
        }
    }
}
