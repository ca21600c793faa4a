import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.params.SetParams;

/** Jedis' cluster class through the commands that an application sends (../README.md). */
final class JedisClusters {
    public static void main(String[] args) {
        HostAndPort node = HostAndPort.from(args[0]);
        RedisClusterClient redis = RedisClusterClient.create(node);
        String prefix = args[1] + ":";
        Map<String, Matrix.Check> checks = new LinkedHashMap<>();
        checks.put("nodes", () -> Matrix.is(Set.of(node.toString()), redis.getClusterNodes().keySet()));
        checks.put("strings", () -> {
            for (int i = 0; i < 100; i++) Matrix.is("OK", redis.set(prefix + i, "" + i, SetParams.setParams().ex(100)));
            for (int i = 0; i < 100; i++) Matrix.is("" + i, redis.get(prefix + i));
        });
        checks.put("tagged", () -> {
            String one = prefix + "{tag}1", two = prefix + "{tag}2";
            Matrix.is("OK", redis.mset(one, "1", two, "2"));
            Matrix.is(List.of("1", "2"), redis.mget(one, two));
            Matrix.is(2L, redis.del(one, two));
        });
        checks.put("several_slots", () -> {
            // The class itself asks for each slot, or refuses.
            redis.set(prefix + "a", "1");
            redis.set(prefix + "b", "2");
            Matrix.is(List.of("1", "2"), redis.mget(prefix + "a", prefix + "b"));
            Matrix.refused("Cannot get connection for command with multiple hash slots", () -> redis.rename(prefix + "a", prefix + "b"));
        });
        checks.put("pipeline", () -> {
            try (var pipe = redis.pipelined()) {
                for (int i = 0; i < 100; i++) pipe.incrBy(prefix + "counter", i);
                pipe.sync();
            }
            Matrix.is("4950", redis.get(prefix + "counter"));
        });
        checks.put("counter", () -> Matrix.is(1L, redis.incr(prefix + "once")));
        // The manifest has no version: the jar's name has it.
        String jar = RedisClusterClient.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        Matrix.run(jar.replaceAll(".*/(jedis)-(.*)\\.jar", "$1 $2") + ", cluster", checks);
    }
}
