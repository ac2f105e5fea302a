package gantrymq.interop;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One JSON object per line on the real standard output. Everything else that writes to System.out (the client's
 * logging does) goes to standard error once {@link #claimOutput} was called.
 */
final class Events {
    private static final int SHORT_BODY = 1024;
    private static PrintStream out = System.out;

    private Events() {
    }

    static void claimOutput() {
        out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
    }

    /** Print an event; the fields are name, value, name, value ... */
    static void print(String event, Object... fields) {
        print(fields(event, fields));
    }

    static void print(Map<String, Object> fields) {
        StringBuilder line = new StringBuilder();
        append(line, fields);
        synchronized (Events.class) {
            out.println(line);
        }
    }

    static Map<String, Object> fields(String event, Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("event", event);
        for (int i = 0; i < pairs.length; i += 2) {
            map.put((String) pairs[i], pairs[i + 1]);
        }
        return map;
    }

    /** Add length and SHA-256 of a body, and its text where it is short. */
    static void addBody(Map<String, Object> fields, byte[] body) {
        fields.put("bodyLength", body.length);
        fields.put("bodySha256", sha256(body));
        if (body.length <= SHORT_BODY) {
            fields.put("body", new String(body, StandardCharsets.UTF_8));
        }
    }

    private static String sha256(byte[] bytes) {
        try {
            StringBuilder hex = new StringBuilder();
            for (byte b : MessageDigest.getInstance("SHA-256").digest(bytes)) {
                hex.append(String.format("%02x", b));
            }
            return hex.toString();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void append(StringBuilder line, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            line.append(value);
        } else if (value instanceof Map) {
            appendMap(line, (Map<?, ?>) value);
        } else if (value instanceof Collection) {
            appendList(line, (Collection<?>) value);
        } else {
            appendText(line, value.toString());
        }
    }

    private static void appendMap(StringBuilder line, Map<?, ?> map) {
        char before = '{';
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            line.append(before);
            appendText(line, entry.getKey().toString());
            line.append(':');
            append(line, entry.getValue());
            before = ',';
        }
        line.append(map.isEmpty() ? "{}" : "}");
    }

    private static void appendList(StringBuilder line, Collection<?> list) {
        char before = '[';
        for (Object value : list) {
            line.append(before);
            append(line, value);
            before = ',';
        }
        line.append(list.isEmpty() ? "[]" : "]");
    }

    private static void appendText(StringBuilder line, String text) {
        line.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                line.append('\\').append(c);
            } else if (c < ' ') {
                line.append(String.format("\\u%04x", (int) c));
            } else {
                line.append(c);
            }
        }
        line.append('"');
    }
}
