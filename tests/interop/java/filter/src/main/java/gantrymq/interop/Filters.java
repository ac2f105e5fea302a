package gantrymq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * Java's own answers to SQL92 expressions, as its broker gets them: the filter of the factory, on the properties that
 * the decoder of messages finds. Reads lines of fields separated by tabs, expressions and raw properties (name 1 value
 * 2 ...) in base64, and answers each with one JSON object:
 *
 * <pre>
 * answer EXPRESSION PROPERTIES                     true, false, null, refused (by the parser), failed (on a message)
 * rate NANOSECONDS EXPRESSION,... PROPERTIES,...   answers for a second of CPU, every expression on each properties
 * </pre>
 */
public final class Filters {
    /** Rounds between looks at the clock take about this many answers. */
    private static final int ANSWERS_BETWEEN_LOOKS = 10_000;

    private Filters() {
    }

    public static void main(String[] args) throws Exception {
        Events.claimOutput();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "answer":
                    answer(text(fields[1]), bytes(fields[2]));
                    break;
                case "rate":
                    rate(Long.parseLong(fields[1]), fields[2].split(","), fields[3].split(","));
                    break;
                default:
                    throw new IllegalArgumentException("no such command: " + fields[0]);
            }
        }
        System.exit(0);
    }

    private static void answer(String expression, byte[] properties) {
        Expression compiled;
        try {
            compiled = compile(expression);
        } catch (MQFilterException e) {
            Events.print("answer", "answer", "refused", "why", String.valueOf(e.getCause()));
            return;
        }
        try {
            Events.print("answer", "answer", String.valueOf(compiled.evaluate(context(properties))));
        } catch (Throwable e) {
            Events.print("answer", "answer", "failed", "why", String.valueOf(e));
        }
    }

    /** "whole" answers from raw properties, which are decoded once for all expressions; "decoded" has them already. */
    private static void rate(long nanoseconds, String[] texts, String[] messages) throws Exception {
        List<Expression> expressions = new ArrayList<>();
        for (String each : texts) {
            expressions.add(compile(text(each)));
        }
        List<byte[]> raw = new ArrayList<>();
        List<MessageEvaluationContext> contexts = new ArrayList<>();
        for (String each : messages) {
            raw.add(bytes(each));
            contexts.add(context(bytes(each)));
        }
        int rounds = Math.max(1, ANSWERS_BETWEEN_LOOKS / (texts.length * messages.length));
        long matched = 0;
        long answers = 0;
        long begin = cpuNanoseconds();
        long end = begin;
        while (end - begin < nanoseconds) {
            for (int round = 0; round < rounds; round++) {
                for (byte[] each : raw) {
                    matched += matched(expressions, context(each));
                }
            }
            answers += (long) rounds * texts.length * messages.length;
            end = cpuNanoseconds();
        }
        double whole = answers / ((end - begin) / 1e9);
        answers = 0;
        begin = cpuNanoseconds();
        end = begin;
        while (end - begin < nanoseconds) {
            for (int round = 0; round < rounds; round++) {
                for (MessageEvaluationContext each : contexts) {
                    matched += matched(expressions, each);
                }
            }
            answers += (long) rounds * texts.length * messages.length;
            end = cpuNanoseconds();
        }
        Events.print("rate", "whole", whole, "decoded", answers / ((end - begin) / 1e9), "matched", matched);
    }

    private static long cpuNanoseconds() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    private static int matched(List<Expression> expressions, MessageEvaluationContext context) throws Exception {
        int matched = 0;
        for (Expression expression : expressions) {
            if (expression.evaluate(context) == Boolean.TRUE) {
                matched++;
            }
        }
        return matched;
    }

    private static Expression compile(String expression) throws MQFilterException {
        return FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(expression);
    }

    /** A message without properties has no map. */
    private static MessageEvaluationContext context(byte[] properties) {
        Map<String, String> map = properties.length == 0 ? null
            : MessageDecoder.string2messageProperties(new String(properties, StandardCharsets.UTF_8));
        return new MessageEvaluationContext(map);
    }

    private static String text(String base64) {
        return new String(bytes(base64), StandardCharsets.UTF_8);
    }

    private static byte[] bytes(String base64) {
        return Base64.getDecoder().decode(base64);
    }
}
