package gantrymq.interop;

import java.util.HashMap;
import java.util.Map;

/** Command-line options of the form {@code --name value}; a name followed by another option is a flag. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] args, int from) {
        for (int i = from; i < args.length; i++) {
            if (!args[i].startsWith("--")) {
                throw new IllegalArgumentException("expected an option, saw " + args[i]);
            }
            boolean flag = i + 1 == args.length || args[i + 1].startsWith("--");
            values.put(args[i].substring(2), flag ? "" : args[++i]);
        }
    }

    boolean has(String name) {
        return values.containsKey(name);
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    String need(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    int number(String name, int otherwise) {
        return has(name) ? Integer.parseInt(need(name)) : otherwise;
    }
}
