import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Supplier;
import org.apache.rocketmq.auth.authentication.model.Subject;
import org.apache.rocketmq.auth.authentication.model.User;
import org.apache.rocketmq.auth.authorization.chain.AclAuthorizationHandler;
import org.apache.rocketmq.auth.authorization.context.DefaultAuthorizationContext;
import org.apache.rocketmq.auth.authorization.enums.Decision;
import org.apache.rocketmq.auth.authorization.enums.PolicyType;
import org.apache.rocketmq.auth.authorization.exception.AuthorizationException;
import org.apache.rocketmq.auth.authorization.model.Acl;
import org.apache.rocketmq.auth.authorization.model.Environment;
import org.apache.rocketmq.auth.authorization.model.Policy;
import org.apache.rocketmq.auth.authorization.model.PolicyEntry;
import org.apache.rocketmq.auth.authorization.model.Resource;
import org.apache.rocketmq.auth.authorization.provider.AuthorizationMetadataProvider;
import org.apache.rocketmq.auth.config.AuthConfig;
import org.apache.rocketmq.common.action.Action;
import org.apache.rocketmq.common.chain.HandlerChain;
import org.apache.rocketmq.common.resource.ResourcePattern;
import org.apache.rocketmq.common.resource.ResourceType;

/**
 * Answers the requests of java_decisions.jsonl by RocketMQ's own handler; "freeze_java_decisions.py" runs it.
 *
 * Reads one case per line and prints one letter per request: a (allowed), n (no matched policies) or d (denied).
 */
public class Decide {
    public static void main(String[] args) throws Exception {
        AuthConfig config = new AuthConfig();
        config.setAuthorizationMetadataProvider(OneAcl.class.getName());
        AclAuthorizationHandler handler = new AclAuthorizationHandler(config, null);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject given = JSON.parseObject(line);
            OneAcl.acl = acl(given.getJSONArray("policies"));
            StringBuilder letters = new StringBuilder();
            for (Object each : given.getJSONArray("requests")) {
                letters.append(decide(handler, (JSONArray) each));
            }
            System.out.println(letters);
        }
        System.exit(0);
    }

    private static char decide(AclAuthorizationHandler handler, JSONArray request) {
        String[] resource = request.getString(1).split(":", 2);
        DefaultAuthorizationContext context = DefaultAuthorizationContext.of(
            User.of("alice"), Resource.of(ResourceType.getByName(resource[0]), resource[1], ResourcePattern.LITERAL),
            actions(request.getString(0)), request.getString(2));
        try {
            handler.handle(context, HandlerChain.create()).join();
            return 'a';
        } catch (AuthorizationException | CompletionException error) {
            Throwable cause = error instanceof CompletionException ? error.getCause() : error;
            if (!(cause instanceof AuthorizationException)) {
                throw new IllegalStateException(cause);
            }
            return cause.getMessage().contains("no matched policies") ? 'n' : 'd';
        }
    }

    private static Acl acl(JSONArray given) {
        List<Policy> policies = new ArrayList<>();
        for (Object policy : given) {
            List<PolicyEntry> entries = new ArrayList<>();
            for (Object each : ((JSONObject) policy).getJSONArray("entries")) {
                JSONObject entry = (JSONObject) each;
                List<String> sources = entry.getList("sourceIps", String.class);
                entries.add(PolicyEntry.of(Resource.of(entry.getString("resource")),
                    actions(String.join(",", entry.getList("actions", String.class))),
                    sources == null ? null : Environment.of(sources), Decision.getByName(entry.getString("decision"))));
            }
            policies.add(Policy.of(PolicyType.getByName(((JSONObject) policy).getString("policyType")), entries));
        }
        return Acl.of(User.of("alice"), policies);
    }

    private static List<Action> actions(String names) {
        List<Action> found = new ArrayList<>();
        for (String name : names.split(",")) {
            found.add(Action.getByName(name));
        }
        return found;
    }

    public static class OneAcl implements AuthorizationMetadataProvider {
        static Acl acl;

        public void initialize(AuthConfig config, Supplier<?> metadataService) {
        }

        public void shutdown() {
        }

        public CompletableFuture<Void> createAcl(Acl acl) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<Void> deleteAcl(Subject subject) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<Void> updateAcl(Acl acl) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<Acl> getAcl(Subject subject) {
            return CompletableFuture.completedFuture(acl);
        }

        public CompletableFuture<List<Acl>> listAcl(String subjectFilter, String resourceFilter) {
            throw new UnsupportedOperationException();
        }
    }
}
